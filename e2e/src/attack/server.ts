import { setTimeout as delay } from 'node:timers/promises';
import {
  type Logger,
  loadEncoding,
  type Message,
  type Part,
  type RequestContext,
  type RequestHandler,
  type Session,
} from '@parlance/protocol';
import {
  type Credentials,
  cluster,
  createServer,
  type Identity,
  keptReplies,
  memoryCluster,
  metrics,
  type Scan,
  type ServerOptions,
  scan,
  tensors,
} from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { createEmbeddedResponder } from '../../../packages/cli/src/serve/responder.js';
import { offer } from '../../../scripts/child-process.js';
import { LARGEST } from './bombs.js';
import { CLUSTER_SECRET, KEY, NEIGHBOUR } from './wire.js';

/**
 * The attacked servers, in a process of their own: default options, `authenticate`, and typical handlers. A
 * token is `BEHAVIOUR.NAME`, and all of it is the principal, so the attack chooses with its token how the
 * application handles its requests.
 */

const upstream = process.argv[2] as string;
const isPlanted = process.argv[3] === 'plant';

const counts = { authenticate: 0, logLines: 0, logBytes: 0, handlerRuns: 0, usageUnknown: 0, forms: 0 };

/** Where the node of the server `cluster` listens for others, and its name. */
let peerPort = 0;
let incarnation = '';

function log(fields: object | string, message?: string): void {
  const { event, address, node } = fields as Readonly<Record<string, unknown>>;
  if (event === 'node.listening') {
    peerPort = Number(new URL(String(address)).port);
    incarnation = String(node);
  }
  counts.logLines++;
  counts.logBytes += JSON.stringify(fields).length + (message?.length ?? 0) + 60;
}
const logger: Logger = { debug: () => {}, info: log, warn: log, error: log };

async function authenticate({ token = '', agentId }: Credentials): Promise<Identity | null> {
  counts.authenticate++;
  const [behaviour = '', name] = token.split('.', 2);
  if (name === undefined || behaviour === 'wrong') return null;
  if (behaviour === 'slow') await delay(400);
  if (behaviour === 'odd') return { principal: token, agentId: ODD_IDS[name] as string };
  return { principal: token, agentId };
}

const ODD_IDS: Readonly<Record<string, unknown>> = {
  object: { toString: () => 'worker' },
  symbol: Symbol('worker'),
  number: 7,
  function: () => 'worker',
};

const respond = createEmbeddedResponder();

const BEHAVIOURS: Readonly<Record<string, RequestHandler>> = {
  echo: (request) => request.text,
  slow: (request) => request.text,
  drop: () => '',
  answer: respond,
  json: (request) => String(Object.keys(request.json<object>()).length),
  throw: () => {
    throw new Error('this handler always throws');
  },
  /** A model that waits before it has read the request. */
  wait: (_request, { signal }) => aborted(signal),
  /** A model that waits while it holds the content. */
  hold: async (request, { signal }) => {
    const { bytes } = request;
    await aborted(signal);
    return bytes.subarray(0, 1) && '';
  },
  /** Work that ignores cancelling. */
  stubborn: async (request) => {
    const { bytes } = request;
    await delay(8_000);
    return bytes.subarray(0, 1) && '';
  },
  /** A reply that is kept for a short time, so that its memory is back soon after the attack. */
  keep: (_request, context) => {
    context.keep({ name: 'kept', ttlMs: 2_000 });
    return some('page '.repeat(200), 200, context);
  },
  /** A reply that others may follow if the application lets them. */
  share: (_request, { keep }) => {
    keep({ ttlMs: 20_000, share: { team: 'blue' } });
    return '';
  },
  letters: (_request, context) => parts('x', context),
  words: (_request, context) => parts('word '.repeat(28), context),
  pages: (_request, context) => parts('page '.repeat(13_000), context),
};

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }));
}

async function* parts(part: string, { signal }: RequestContext): AsyncGenerator<Part> {
  for (let i = 0; i < 100_000 && !signal.aborted; i++) yield part;
}

async function* some(part: string, count: number, { signal }: RequestContext): AsyncGenerator<Part> {
  for (let i = 0; i < count && !signal.aborted; i++) yield part;
}

function dispatch(request: Message, context: RequestContext): ReturnType<RequestHandler> {
  if (context.session.principal !== NEIGHBOUR) counts.handlerRuns++;
  const behaviour = (context.session.principal ?? '').split('.', 1)[0] as string;
  return (BEHAVIOURS[behaviour] ?? BEHAVIOURS['echo'])?.(request, context);
}

/** Reads all one-way messages, or none if the principal begins with `unread`. */
async function onSession(session: Session): Promise<void> {
  if (session.principal?.startsWith('unread')) return;
  for await (const message of session) await session.send(message.text);
}

/** Quotes the content that it found, as scanners do. */
const check: Scan = ({ text }) => ({ safe: !text.startsWith('!'), threatType: text });

const leaked: Uint8Array[] = [];

/** Called for each HTTP request and each of the gateway: with faults, something stays of it. */
function leak(): void {
  if (isPlanted) leaked.push(new Uint8Array(64 * 1024));
}

function gateway(models?: readonly string[]): RequestHandler {
  const pass = createOpenAIGateway({
    baseUrl: upstream,
    apiKey: 'sk-0123456789abcdef',
    logger,
    onUsage: ({ tokens, outcome }) => {
      if (outcome === 'completed' && tokens === undefined) counts.usageUnknown++;
    },
    ...(models && { models }),
  });
  return (request, context) => {
    if (!context.session.principal?.startsWith('gateway')) return dispatch(request, context);
    leak();
    return pass(request, context);
  };
}

/** Handlers as they are written: bodies that are parsed have a bound, at `/large` that of messages; streamed ones have none. */
const app = new Hono();
app.use(async (_context, next) => {
  leak();
  await next();
});
app.use('/form', bodyLimit({ maxSize: 256 * 1024 }));
app.use('/large', bodyLimit({ maxSize: LARGEST }));
const countFields = async (context: Context) => {
  counts.forms++;
  return context.text(String(Object.keys(await context.req.parseBody()).length));
};
app.post('/form', countFields);
app.post('/large', countFields);
app.post('/read', async (context) => {
  let size = 0;
  for await (const chunk of context.req.raw.body ?? []) size += chunk.length;
  return context.text(String(size));
});

/** Faults that the attacks have to find: no limit of memory, of streams and messages, and of the loop's time, and {@link leak}. */
const PLANTS: ServerOptions = {
  processMemory: Number.POSITIVE_INFINITY,
  loopShare: 1,
  limits: { sessionMemory: Number.POSITIVE_INFINITY, maxStreams: 10_000, messagesPerMinute: 1e6 },
};
const common: ServerOptions = {
  authenticate,
  logger,
  onRequest: dispatch,
  ...(isPlanted && PLANTS),
};
const SERVERS = {
  main: { ...common, features: [metrics()] },
  http: common,
  mailbox: { ...common, onSession },
  streams: { ...common, onSession, features: [tensors({ transfers: 'stream' })] },
  gateway: { ...common, onRequest: gateway(['gpt-4o*']) },
  'gateway-open': { ...common, onRequest: gateway() },
  security: { ...common, security: { mode: 'HMAC', key: KEY } },
  scan: { ...common, features: [scan(check)] },
  fetch: { ...common, onFetch: app.fetch },
  replies: { ...common, features: [keptReplies({ authorize: () => delay(20, false) })] },
  cluster: { ...common, onSession, engine: memoryCluster(), features: [cluster({ secret: CLUSTER_SECRET })] },
} as const satisfies Record<string, ServerOptions>;
export type ServerName = keyof typeof SERVERS;

// Vocabularies are loaded once per process; their memory is not due to an attack.
await Promise.all([loadEncoding('O200K_BASE'), loadEncoding('CL100K_BASE')]);

const servers = Object.entries(SERVERS).map(([name, options]) => ({
  name: name as ServerName,
  server: createServer(options),
}));
const ports = {} as Record<ServerName, number>;
for (const { name, server } of servers) ports[name] = (await server.listen()).port;

const commands = {
  ports: () => ports,
  peerPort: () => peerPort,
  incarnation: () => incarnation,
  counts: () => counts,
  /** Bytes in use after garbage collection. */
  async held(): Promise<number> {
    for (let i = 0; i < 2; i++) {
      globalThis.gc?.();
      await delay(5);
    }
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  },
  /** Ends all sessions of the attacker. */
  end(name: ServerName): void {
    for (const session of servers.find((each) => each.name === name)?.server.sessions.values() ?? [])
      if (session.principal !== NEIGHBOUR) void session.close();
  },
  sessions: (name: ServerName) => servers.find((each) => each.name === name)?.server.sessions.size ?? 0,
  connections: () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length,
};
export type ServerCommands = typeof commands;

offer(commands);
