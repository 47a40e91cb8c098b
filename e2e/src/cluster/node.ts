import { setTimeout as delay } from 'node:timers/promises';
import { cluster, createServer, type Message, metrics, type Session } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { offer } from '../../../scripts/child-process.js';
import { serverEndpoint } from '../kit/endpoints.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { handlers, scenarios } from './scenarios.js';

/** One node in a process of its own. It answers so that every byte and the order count. */

export interface NodeSetup {
  /** Of Redis. */
  readonly url: string;
  readonly peerPort: number;
  /** Where other nodes find the peer port, for a proxy in front of it. */
  readonly advertise: string;
  readonly secret: string;
}

const setup = JSON.parse(process.argv[2] as string) as NodeSetup;
/** How often each event was logged, and how often about which node: `event` and `event NODE`. */
const events: Record<string, number> = {};
const logged = ({ event, node }: Readonly<Record<string, unknown>>): void => {
  for (const key of [`${event}`, ...(node === undefined ? [] : [`${event} ${node}`])])
    events[key] = (events[key] ?? 0) + 1;
};
const log = (fields: Readonly<Record<string, unknown>>) => logged(fields);
let authenticated = 0;
/** Characters that handlers have yielded. */
let produced = 0;
/** Numbers that arrived one-way, by session. */
const heard = new Map<string, number[]>();

const server = createServer({
  engine: redis({ url: setup.url }),
  features: [
    metrics(),
    cluster({
      listen: { port: setup.peerPort },
      advertise: setup.advertise,
      secret: setup.secret,
    }),
  ],
  logger: { debug: log, info: log, warn: log, error: log },
  limits: UNLIMITED,
  authenticate({ token = '' }) {
    authenticated++;
    const [principal = '', agentId] = token.split('/');
    return principal.startsWith('user-') ? { principal, ...(agentId ? { agentId } : {}) } : null;
  },
  onSession,
  async *onRequest(request, context) {
    const { metadata, signal, keep: keepReply } = context;
    const scenario = scenarios[String(metadata['scenario'])];
    if (scenario !== undefined) return yield* scenario(request, context);
    const { parts = '1', size = '0', pauseMs = '0', keep = '' } = metadata;
    if (keep !== '') keepReply({ name: String(keep) });
    const filler = 'x'.repeat(Number(size));
    // Every part says how long the request was, which context coding must not change.
    for (let i = 0; i < Number(parts) && !signal.aborted; i++) {
      const part = `${i}:${request.text.length}:${request.text.slice(-8)}${filler} `;
      produced += part.length;
      yield part;
      if (pauseMs !== '0') await delay(Number(pauseMs));
    }
  },
});

/** Sends numbers back, and tensors. */
async function onSession(session: Session): Promise<void> {
  const numbers: number[] = [];
  heard.set(session.id, numbers);
  for await (const message of session) {
    if (message.tensor?.data === undefined) await handleNumber(session, message, numbers);
    else {
      const { data, shape, dtype, payloadType } = message.tensor;
      await session.sendTensor({ data, shape, dtype, payloadType });
    }
  }
}

async function handleNumber(session: Session, message: Message, numbers: number[]): Promise<void> {
  numbers.push(Number(message.text));
  await session.send(message.text);
}

const { port } = await server.listen();

const commands = {
  port: () => port,
  sessions: () => server.sessions.size,
  owns: (sessionId: string) => server.sessions.has(sessionId),
  events: () => events,
  authenticated: () => authenticated,
  produced: () => produced,
  handlers: () => handlers,
  askToMove(sessionId: string): void {
    const session = server.sessions.get(sessionId);
    if (session === undefined) throw new Error(`${sessionId} is not here`);
    const goAway = { retryAfterMs: 20, deadline: Date.now(), move: true };
    serverEndpoint(session).sendGoAway(goAway);
  },
  heard: (sessionId: string) => heard.get(sessionId) ?? [],
  memory(): number {
    globalThis.gc?.();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  },
  drain: async (timeoutMs: number) => await server.drain({ timeoutMs, returnWithinMs: 0 }),
  close: async () => await server.close(),
};
export type NodeCommands = typeof commands;

offer(commands);
