import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createServer,
  durable,
  type Message,
  type RequestContext,
  type ServerSession,
} from '@parlance/server';
import { engineAt } from '../../kit/engine-at.js';
import type { Question } from '../cluster/node.js';
import { type LogFields, NodeProcess, type NodeSetup } from '../cluster/node-process.js';
import { createEffects } from './effects.js';
import { type DurablePlant, withFault } from './plant.js';
import { isRepeatable, RESUME_WINDOW_MS } from './settings.js';

/** One node whose sessions are durable: messages are answered and counted in one step, and parts are numbered. */

export interface DurableNodeSetup extends NodeSetup {
  /** The file of outside effects. */
  readonly effects: string;
  readonly plant: DurablePlant | undefined;
}

/** Share of the messages after which the server says something of its own. */
const NOTES = 0.2;
/** Average time between the effect of a message and its commit: a node may die there. */
const WORK_MS = 4;

const node = new NodeProcess<DurableNodeSetup>();
const { effects, plant, engine: address, drainMs, returnWithinMs } = node.setup;
const effect = createEffects(effects);
/** How long a handler without a recorded start has recorded nothing else. */
const UNMARKED_MS = 150;
/** The system gives process IDs again in an hour of chaos. */
const self = randomUUID();
let notes = 0;

const options = node.options(noteLoss);
const server = createServer<{ readonly count: number }>({
  ...options,
  timers: { ...options.timers, resumeWindowMs: RESUME_WINDOW_MS },
  engine: withFault(engineAt(address), plant),
  features: [...options.features, durable()],
  onSession: count,
  onRequest: answer,
});

function noteLoss({ event, session }: LogFields): void {
  if (event === 'session.fenced') effect('fenced', String(session));
  if (event === 'node.cut_off') effect('cut off');
}

async function count(session: ServerSession<{ readonly count: number }>): Promise<void> {
  const { id } = session;
  let { count } = session.data ?? { count: 0 };
  effect('begin', id, count);
  if (!session.isDurable) effect('fault', `${id} is not durable`);
  for await (const { text, number = 0, isRedelivered = false } of session) {
    if (plant === 'handled') session.markHandledUpTo(number);
    effect('take', id, number, count, isRedelivered);
    await sleep(Math.random() * 2 * WORK_MS);
    count++;
    await session.commit({ data: { count }, send: [`${text} ${count}`] });
    if (Math.random() < NOTES) void say(session);
  }
}

/** Says something that is not an answer. */
async function say(session: Pick<ServerSession, 'id' | 'send'>): Promise<void> {
  const note = `${self}.${notes++}`;
  try {
    await session.send(`note ${note}`);
    effect('noted', session.id, note);
  } catch {
    // The session is over here: the note has arrived or not.
  }
}

async function* answer(
  request: Message,
  { attempt, yielded, ifProcessDies, signal }: RequestContext,
): AsyncGenerator<string> {
  const { id, parts, paceMs } = request.json<Question>();
  effect('start', id, attempt, yielded.length);
  yielded.forEach(({ text }, i) => {
    if (text !== String(i)) effect('fault', `${id} has ${text} as part ${i} of what was said`);
  });
  if (isRepeatable(id)) ifProcessDies('again');
  if (plant === 'start') await sleep(UNMARKED_MS);
  for (let part = yielded.length; part < parts; part++) {
    if (signal.aborted) return;
    yield String(part);
    await sleep(Math.random() * 2 * paceMs);
  }
  effect('done', id);
}

await node.serve(server, async () => void (await server.drain({ timeoutMs: drainMs, returnWithinMs })));
