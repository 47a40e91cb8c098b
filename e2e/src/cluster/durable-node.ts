import { setTimeout as delay } from 'node:timers/promises';
import {
  cluster,
  createServer,
  type DurabilityOptions,
  durable,
  type ServerSession,
  sealed,
} from '@parlance/server';
import { offer } from '../../../scripts/child-process.js';
import type { EngineAddress } from '../kit/engine-address.js';
import { engineAt } from '../kit/engine-at.js';
import { words } from './words.js';

/** One node in a process of its own, whose sessions are durable. */

export interface DurableNodeSetup {
  readonly url: EngineAddress;
  /** @default it is not a node of a cluster */
  readonly secret?: string;
  /** Seals what Redis has. */
  readonly seal?: { readonly key: string } | undefined;
  /** @default a free one */
  readonly port?: number;
  /** @default Redis may forget everything with its process */
  readonly durability?: DurabilityOptions | undefined;
}

/** The application's state of a session. */
export interface Counted {
  readonly count: number;
  /** The number of the last message that is in `count`. */
  readonly last: number;
}

const setup = JSON.parse(process.argv[2] as string) as DurableNodeSetup;
const events: Record<string, number> = {};
const log = ({ event }: Readonly<Record<string, unknown>>): void => {
  events[`${event}`] = (events[`${event}`] ?? 0) + 1;
};
/** The views of `onSession`: the state with which it began, then each message. */
const seen: string[] = [];
/** The values that `keep` has returned. */
const kept: (string | undefined)[] = [];
/** Why handlers were aborted. */
const aborts: string[] = [];
/** Parts of replies so far. */
let told = 0;
/** How often a handler was called, by the text of its request. */
const calls: Record<string, number> = {};

const engine = engineAt(setup.url);
const server = createServer<Counted>({
  engine: setup.seal === undefined ? engine : sealed(engine, setup.seal),
  features: [
    ...(setup.secret === undefined ? [] : [cluster({ secret: setup.secret })]),
    durable(({ principal }) => principal !== 'plain', { allowVolatileEngine: true, ...setup.durability }),
    words(),
  ],
  logger: { debug: log, info: log, warn: log, error: log },
  authenticate({ token = '' }) {
    const [principal = '', agentId] = token.split('/');
    return { principal, agentId, data: { count: 0, last: 0 } };
  },
  onSession,
  async *onRequest(request, { metadata, signal, yielded, attempt, ifProcessDies, keep }) {
    calls[request.text] = (calls[request.text] ?? 0) + 1;
    if (metadata['again'] === true) ifProcessDies('again');
    if (metadata['keep'] !== undefined && !(attempt === 1 && metadata['late'] === true))
      kept.push(keep({ name: String(metadata['keep']) })?.id);
    signal.addEventListener('abort', () => aborts.push(signal.reason?.code));
    yield* parts(yielded.length, Number(metadata['parts'] ?? 1), attempt);
  },
});

async function* parts(from: number, to: number, attempt: number): AsyncGenerator<string> {
  for (let i = from; i < to; i++) {
    yield `${i}@${attempt} `;
    told++;
    await delay(10);
  }
}

async function onSession(session: ServerSession<Counted>): Promise<void> {
  seen.push(`began with ${session.data.count}, durable ${session.isDurable}, moved ${session.isMoved}`);
  for await (const message of session) {
    const { text, number = 0, isRedelivered = false } = message;
    seen.push(isRedelivered ? `${text} #${number} again` : `${text} #${number}`);
    if (text === 'leave unhandled') await new Promise(() => {});
    const count = session.data.count + 1;
    const state = { count, last: number };
    const answer = `${count}: ${text}`;
    if (session.isDurable) await session.commit({ data: state, send: [answer] });
    else {
      session.data = state;
      await session.send(answer);
    }
  }
}

const { port } = await server.listen({ port: setup.port ?? 0 });

const commands = {
  port: () => port,
  sessions: () => [...server.sessions.keys()],
  events: () => events,
  seen: () => seen,
  aborts: () => aborts,
  calls: () => calls,
  kept: () => kept,
  told: () => told,
  send: async (text: string) => {
    for (const session of server.sessions.values()) await session.send(text);
  },
  drain: async (timeoutMs: number) => await server.drain({ timeoutMs, returnWithinMs: 0 }),
  close: async () => await server.close(),
};
export type DurableNodeCommands = typeof commands;

offer(commands);
