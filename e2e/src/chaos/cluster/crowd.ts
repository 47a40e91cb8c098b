import { setTimeout as sleep } from 'node:timers/promises';
import { offer } from '../../../../scripts/child-process.js';
import { type Fates, Ledger } from './ledger.js';
import { trustingSocket } from './trusting-socket.js';
import { User } from './user.js';

/** Users that say something now and then, in a process of their own: those whose gaps are measured must not wait for them. */

export interface CrowdSetup {
  readonly urls: readonly string[];
  readonly certificate: string | undefined;
  readonly count: number;
  readonly sayEveryMs: number;
}

/** Connections that are opened at the same time. */
const AT_ONCE = 16;
const NO_FATES: Fates = { killed: new Set(), deadlines: new Map(), killedPids: new Set() };

const { urls, certificate, count, sayEveryMs }: CrowdSetup = JSON.parse(process.argv[2] as string);
const ledger = new Ledger();
const users: User[] = [];
const over = new AbortController();

async function open(): Promise<void> {
  const WebSocket = trustingSocket(certificate);
  let next = 0;
  const openSome = async () => {
    while (next < count) {
      const number = next++;
      const url = urls[number % urls.length] as string;
      const user = await User.open({ url, ledger, name: `idle-${number}`, WebSocket });
      user.begin({ sayEveryMs }, over.signal);
      users.push(user);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, openSome));
}

const commands = {
  /** Resolves when all are there. */
  open,
  /** Waits until everything has come back. @returns what was wrong. */
  async rest(withinMs: number): Promise<readonly string[]> {
    over.abort();
    await Promise.race([Promise.all(users.map((user) => user.rest())), sleep(withinMs)]);
    return ledger.check([], NO_FATES);
  },
  arrived: () => ledger.arrived,
};
export type CrowdCommands = typeof commands;

offer(commands);
