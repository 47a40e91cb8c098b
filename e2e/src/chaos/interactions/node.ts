import { setTimeout as sleep } from 'node:timers/promises';
import { isProtocolError } from '@parlance/protocol';
import {
  createServer,
  durable,
  keptReplies,
  type Message,
  type RequestContext,
  type ServerSession,
} from '@parlance/server';
import { faultyMemory } from '../../../../packages/server/src/engine/testing/faulty-memory.js';
import { MEMORY } from '../../kit/engine-address.js';
import { engineAt } from '../../kit/engine-at.js';
import { type EngineBlow, type LogFields, NodeProcess, type NodeSetup } from '../cluster/node-process.js';
import { createEffects } from '../durable/effects.js';
import { RESUME_WINDOW_MS } from '../durable/settings.js';
import { type InteractionPlant, plantFault, withPlant } from './plant.js';
import { PLAIN_AGENTS, partOf, type Question, SLOW_MS } from './settings.js';

/** One node with agents, of which some have durable sessions, and replies that are kept in the engine; or several, in memory. */

export interface InteractionNodeSetup extends NodeSetup {
  /** The file of outside effects. */
  readonly effects: string;
  readonly plant: InteractionPlant | undefined;
}

/** Events that say that the server itself has failed, or a function of this application. */
const CRASHES: ReadonlySet<string> = new Set([
  'session.crashed',
  'session.failed',
  'server.failed',
  'relay.failed',
  'agents.failed',
  'request.failed',
]);

const STALLED: ReadonlySet<string> = new Set(['engine.stalled', 'replies.stalled']);
const ANSWERED: ReadonlySet<string> = new Set(['engine.back', 'engine.answered', 'replies.back']);

const node = new NodeProcess<InteractionNodeSetup>();
const { effects, plant, engine: address, drainMs, returnWithinMs } = node.setup;
const effect = createEffects(effects);
for (const event of ['uncaughtException', 'unhandledRejection'] as const)
  process.on(event, (error) => {
    // It is started again, at another port.
    if (isPortTaken(error)) process.exit(1);
    effect('fault', `${event}: ${described(error)}`);
  });
await plantFault(plant);

const options = node.options(noteLog);
/** Memory cannot fail by itself. */
const faulty = address === MEMORY ? faultyMemory() : undefined;
const engine = withPlant(faulty?.create() ?? engineAt(address), plant);
const create = () =>
  createServer<{ readonly count: number }>({
    ...options,
    timers: { ...options.timers, resumeWindowMs: RESUME_WINDOW_MS },
    engine,
    features: [
      ...options.features,
      durable(({ agentId = '' }) => !PLAIN_AGENTS.includes(agentId), {
        // Without `fsync`: only processes die here.
        allowVolatileEngine: address.startsWith('postgres:'),
      }),
      keptReplies({
        keep: (request) => {
          const { id, keep } = request.json<Question>();
          return keep === 'policy' ? { name: id } : undefined;
        },
      }),
    ],
    authenticate: ({ token, agentId }) =>
      token === undefined ? null : { principal: token, ...(agentId !== undefined && { agentId }) },
    onError: (error, { event }) => {
      if (CRASHES.has(event)) effect('fault', `${event}: ${described(error)}`);
    },
    onSession: count,
    onRequest: answer,
  });

function noteLog(fields: LogFields): void {
  const { event, session, reply } = fields;
  if (event === 'session.fenced') effect('fenced', String(session));
  if (STALLED.has(String(event))) effect('stalled');
  if (ANSWERED.has(String(event))) effect('answered');
  if (event === 'node.cut_off') effect('cut off');
  if (event === 'reply.full') effect('unkept', String(reply), described(fields['err']));
}

function described(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : JSON.stringify(error);
}

async function count(session: ServerSession<{ readonly count: number }>): Promise<void> {
  try {
    await countAll(session);
  } catch (error) {
    effect('ended', session.id, isProtocolError(error) ? error.code : described(error));
  }
}

/** Answers `PAGE NUMBER MS` with the page, the number and how many there were. */
async function countAll(session: ServerSession<{ readonly count: number }>): Promise<void> {
  let { count } = session.data ?? { count: 0 };
  effect('begin', session.id, count);
  for await (const { text } of session) {
    const [page = '', number = '', workMs = '0'] = text.split(' ');
    // As CLUSTER.md asks: one that does not return keeps its session until the deadline of a drain.
    const signal = session.isDurable ? undefined : session.signal;
    await sleep(Number(workMs), undefined, { signal }).catch(() => {});
    count++;
    const send = `${page} ${number} ${count}`;
    if (session.isDurable) await session.commit({ data: { count }, send: [send] });
    else {
      session.data = { count };
      await session.send(send);
    }
  }
}

async function* answer(
  request: Message,
  { attempt, yielded, ifProcessDies, keep, signal }: RequestContext,
): AsyncGenerator<string> {
  const question = request.json<Question>();
  const { id, parts, paceMs } = question;
  effect('start', id, attempt, yielded.length);
  if (question.again) ifProcessDies('again');
  if (question.keep === 'name') effect('kept', id, keep({ name: id })?.id ?? '');
  signal.addEventListener('abort', () => effect('stopped', id, String(signal.reason?.code ?? signal.reason)));
  for (let part = yielded.length; part < parts; part++) {
    if (signal.aborted) return;
    yield partOf(id, part, attempt);
    await sleep(Math.random() * 2 * paceMs);
  }
  effect('done', id);
}

await node.serve(
  create(),
  async (server) => void (await server.drain({ timeoutMs: drainMs, returnWithinMs })),
  { create, fail: failMemory },
);

/** Makes an engine in memory fail; proxies and servers do this for other engines. */
async function failMemory({ kind, ms }: EngineBlow): Promise<void> {
  const faults = faulty?.faults;
  if (faults === undefined) throw new Error('this engine is not in memory');
  if (kind === 'silence') return await faults.loseAnswers?.(0);
  const end = kind === 'slow' ? await faults.slow?.(SLOW_MS) : await faults.fill?.();
  await sleep(ms);
  await end?.();
}

function isPortTaken(error: unknown): boolean {
  const { cause } = error as { readonly cause?: NodeJS.ErrnoException };
  return cause?.code === 'EADDRINUSE';
}
