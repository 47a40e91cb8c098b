import { setTimeout as pause } from 'node:timers/promises';
import { offer } from '../../../scripts/child-process.js';
import { openDirect, openSession } from './ways.js';

/** Asks in each way in turn, in a process of its own: a client that has just started is part of a cold request. */

const [direct, proxy, session] = process.argv.slice(2) as [string, string, string];
const ways = { direct: openDirect(direct), proxy: openDirect(proxy), session: await openSession(session) };
export type WayName = keyof typeof ways;
export type FirstTokens = Readonly<Record<WayName, number[]>>;

interface Questions {
  /** JSON text. */
  readonly request: string;
  /** Requests of each way that are not counted. */
  readonly before: number;
  readonly times: number;
  /** Milliseconds before each request. */
  readonly gapMs: number;
}

const commands = {
  /** Returns milliseconds to the first byte of each answer. */
  async firstTokens({ request, before, times, gapMs }: Questions): Promise<FirstTokens> {
    const taken: FirstTokens = { direct: [], proxy: [], session: [] };
    for (let i = 0; i < before + times; i++) {
      for (const name of Object.keys(ways) as WayName[]) {
        await pause(gapMs);
        const answer = await ways[name].ask(request);
        await answer.drain();
        if (i >= before) taken[name].push(answer.firstMs);
      }
    }
    return taken;
  },
};
export type ClientCommands = typeof commands;

offer(commands);
