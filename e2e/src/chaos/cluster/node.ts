import { appendFileSync } from 'node:fs';
import { createServer, type ServerSession } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { offer } from '../../../../scripts/child-process.js';
import { answers, type Plant, planted } from './plant.js';

/** One node in a process of its own, with an application whose every message and part is numbered. SIGTERM drains it. */

export interface NodeSetup {
  /** Of Redis. */
  readonly redis: string;
  readonly peerPort: number;
  /** Where other nodes find the peer port. */
  readonly advertise: string;
  readonly secret: string;
  /** Port of the upstream. */
  readonly upstream: number;
  readonly drainMs: number;
  readonly returnWithinMs: number;
  /** A file to which the log is appended. */
  readonly log: string | undefined;
  /** A fault that the ledger must find. */
  readonly plant: Plant | undefined;
}

/** A request of a user: as many numbered parts as it asks for. */
export interface Question {
  readonly id: string;
  readonly parts: number;
  readonly paceMs: number;
}

const setup = JSON.parse(process.argv[2] as string) as NodeSetup;
const { plant } = setup;
const events: Record<string, number> = {};
let incarnation = '';
const log = (fields: Readonly<Record<string, unknown>>) => {
  const event = String(fields['event']);
  events[event] = (events[event] ?? 0) + 1;
  if (event === 'node.member') incarnation = String(fields['node']);
  if (setup.log === undefined) return;
  const line = { time: new Date().toISOString(), at: incarnation, ...fields };
  appendFileSync(setup.log, `${JSON.stringify(line)}\n`);
};
const stopping = new AbortController();
const backplane = redis({ url: setup.redis });

const server = createServer({
  cluster: backplane,
  node: { listen: { port: setup.peerPort }, advertise: setup.advertise, secret: setup.secret },
  logger: { debug: log, info: log, warn: log, error: log },
  limits: {
    messagesPerMinute: Infinity,
    bytesPerSecond: Infinity,
    sessionsPerMinutePerIp: Infinity,
    connectionsPerMinutePerIp: Infinity,
    failuresPerMinutePerIp: Infinity,
    handshakesPerIp: Infinity,
    sessionsPerIp: Infinity,
    sessionsPerPrincipal: Infinity,
  },
  timers: { pingIntervalMs: 10_000, pongTimeoutMs: 5_000, resumeWindowMs: 40_000 },
  authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
  onSession: echo,
  async *onRequest(request, { signal }) {
    const question = request.json<Question>();
    if (plant === 'again') await (await ask(question, signal)).text();
    const until = plant === 'abort' ? AbortSignal.any([signal, stopping.signal]) : signal;
    const response = await ask(question, until);
    yield* answers(linesOf(response.body as AsyncIterable<Uint8Array>, until), plant);
  },
});

async function ask({ id, parts, paceMs }: Question, signal: AbortSignal): Promise<Response> {
  const query = new URLSearchParams({
    id,
    parts: String(parts),
    paceMs: String(paceMs),
    node: String(process.pid),
  });
  return await fetch(`http://127.0.0.1:${setup.upstream}/?${query}`, { signal });
}

/** Ends without an error when the handler is to stop. */
async function* linesOf(body: AsyncIterable<Uint8Array>, until: AbortSignal): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for await (const chunk of body) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      yield* lines;
    }
  } catch (error) {
    if (!until.aborted) throw error;
  }
}

/** Sends numbers back, each with how many there were so far, at whichever node. */
async function echo(session: ServerSession): Promise<void> {
  let count = Number(session.data ?? 0);
  for await (const { text } of session) {
    count++;
    if (plant !== 'forget') session.data = count;
    if (plant === 'mute' && planted()) continue;
    await session.send(`${text} ${count}`);
  }
}

process.once('SIGTERM', async () => {
  stopping.abort();
  if (plant === 'engine') {
    const link = backplane.connect();
    for (let i = 0; i < 20 * server.sessions.size; i++) await link.find('absent').catch(() => {});
    await link.close();
  }
  if (plant !== 'close')
    await server.drain({ timeoutMs: setup.drainMs, returnWithinMs: setup.returnWithinMs });
  await server.close();
  process.exit();
});

const { port } = await server.listen();

const commands = {
  port: () => port,
  incarnation: () => incarnation,
  sessions: () => [...server.sessions.keys()],
  events: () => events,
  /** Milliseconds of processor time that this process has used. */
  cpuMs(): number {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  },
};
export type NodeCommands = typeof commands;

offer(commands);
