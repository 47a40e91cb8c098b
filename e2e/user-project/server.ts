import {
  type AgentsOptions,
  type Authenticate,
  agents,
  type BatchOptions,
  batching,
  type CloseResult,
  type Credentials,
  createServer,
  type DrainOptions,
  type DrainResult,
  hooks,
  type Identity,
  isProtocolError,
  type Limits,
  type Listening,
  type ListenOptions,
  type Logger,
  type M2MHeader,
  type Message,
  type Metadata,
  type ModelIdentity,
  metrics,
  modelIdentity,
  type Part,
  type RelayQuestion,
  type RelayStats,
  type RequestContext,
  RequestError,
  type RequestHandler,
  type RouteQuestion,
  type Scan,
  type ScanContext,
  type Server,
  type ServerOptions,
  type Session,
  type SessionState,
  scan,
  type Timers,
  tensors,
  type Verdict,
  without,
} from '@parlance/server';
import { createOpenAIGateway, type OpenAIGatewayOptions } from '@parlance/server/openai';

/** A server as an application writes it, with the types of its functions named. */

export const logger: Logger = {
  debug: () => {},
  info: (fields, message) => console.log(message, fields['event']),
  warn: (fields: Readonly<Record<string, unknown>>, message: string) => console.warn(message, fields),
  error: (fields, message) => console.error(message, fields),
};

export async function authenticate(credentials: Credentials): Promise<Identity | null> {
  const { token, ip, headers, agentId } = credentials;
  logger.info({ event: 'login', ip, agent: headers['user-agent'] }, 'a client connects');
  if (token === undefined) return null;
  return { principal: token.slice(0, 8), agentId, expiresAt: Date.now() + 3_600_000 };
}

export const authenticateLocally: Authenticate = (credentials) =>
  credentials.ip === '127.0.0.1' ? { principal: 'local' } : undefined;

export function check(message: Message, { session, direction }: ScanContext): Verdict {
  const isSafe = message.tensor !== undefined || !message.text.includes('ignore all previous instructions');
  if (!isSafe) logger.warn({ event: 'scan', session: session.id, direction }, 'content looks like an attack');
  return isSafe ? { safe: true } : { safe: false, threatType: 'injection', confidence: 0.9, block: true };
}

export async function* answer(request: Message, context: RequestContext): AsyncGenerator<Part> {
  const { session, signal, metadata } = context;
  context.setMetadata({
    asked: Date.now(),
    by: session.principal ?? '',
    trace: metadata['traceparent'] ?? '',
  });
  context.setBatch(batch);
  logger.info({ event: 'asked', model: modelOf(request.header) }, 'a request');
  const { question } = request.json<{ question: string }>();
  if (question === '') throw new RequestError('empty', 'the question is empty', { data: { question } });
  for (const word of question.split(' ')) {
    if (signal.aborted) return;
    yield `${word} `;
    yield { tokens: [9906] };
    yield { bytes: Uint8Array.of(33) };
    yield { words: 1 };
    yield { json: { text: word } };
  }
}

/** The model that an M2M request names. */
function modelOf(header: M2MHeader | undefined): string | undefined {
  return header?.schema === 'request' ? header.model : undefined;
}

/** The other forms of a handler: a promise of one part, and a part or nothing. */
export const answerOnce: RequestHandler = async (request) => `you asked: ${request.text}`;
export function answerNothing(_request: Message, _context: RequestContext): Part | undefined {
  return undefined;
}

const batch: BatchOptions = { ms: 20, bytes: 1024 };

export async function serve(session: Session): Promise<void> {
  greet(session, { since: Date.now() });
  const off = session.on('state', (state: SessionState) => note(session, state));
  try {
    for await (const message of session) await echo(session, message);
  } catch (error) {
    if (isProtocolError(error) && error.code === 'session_lost') return;
    throw error;
  } finally {
    off();
    const { unacknowledged }: CloseResult = await session.close();
    logger.info({ event: 'closed', unacknowledged, sent: session.stats().sent.messages }, 'session closed');
  }
}

async function echo(session: Session, message: Message): Promise<void> {
  const { tensor } = message;
  if (tensor === undefined)
    return await session.send(message.text, { algorithm: 'auto', compressAlone: true });
  if (tensor.data !== undefined) return await session.sendTensor(tensor);
  let bytes = 0;
  for await (const chunk of tensor.chunks) bytes += chunk.byteLength;
  await session.send({ json: { bytes, shape: tensor.shape, dtype: tensor.dtype } });
}

function greet(session: Session, metadata: Metadata): void {
  const { algorithms, encoding } = session.negotiated;
  logger.info({ event: 'open', ...metadata, algorithms: algorithms.join(', '), encoding }, 'session open');
}

function note({ id, agentId }: Session, state: SessionState): void {
  if (state === 'suspended') logger.info({ event: 'lost', id, agentId }, 'a client has lost its connection');
}

const limits: Partial<Limits> = { messagesPerMinute: 600, maxMessageSize: Number.POSITIVE_INFINITY };
const identity: ModelIdentity = modelIdentity('{"model_type":"llama","hidden_size":4096}');
const timers: Partial<Timers> = { closingTimeoutMs: 1_000 };
const agentsOptions: AgentsOptions = {
  onConflict: 'refuse',
  authorize: ({ from, to, kind, header }: RelayQuestion) =>
    from.principal === to.principal && (kind !== 'request' || modelOf(header) !== 'secret'),
  route: (to: string, { from }: RouteQuestion) =>
    to === 'boss' ? { principal: from.principal, id: 'worker-1' } : to,
};

export const options: ServerOptions = {
  path: '/session',
  origins: ['https://app.example'],
  algorithms: ['M2M', 'TOKEN_NATIVE', 'NONE'],
  encodings: ['O200K_BASE'],
  features: [
    metrics({ path: '/metrics' }),
    scan(check satisfies Scan),
    tensors({ avp: { identity }, transfers: 'stream' }),
    batching(batch),
    agents(agentsOptions),
    without('context'),
  ],
  limits,
  timers,
  authenticate,
  logger,
  onSession: serve,
  onRequest: answer,
};

const gatewayOptions: OpenAIGatewayOptions = { baseUrl: 'http://127.0.0.1:1/v1', models: ['gpt-4o*'] };

export function createGateway(overrides: Partial<ServerOptions> = {}): Server {
  return createServer({ ...options, ...overrides, onRequest: createOpenAIGateway(gatewayOptions) });
}

export async function run(where: ListenOptions): Promise<DrainResult> {
  await using server = createServer(options);
  const { url, port }: Listening = await server.listen(where);
  const { forwarded }: RelayStats = server.relayStats();
  logger.info({ event: 'listening', url, port, forwarded, sessions: server.sessions.size }, 'listening');
  const drain: DrainOptions = { timeoutMs: 1_000, releasePort: true };
  return await server.drain(drain);
}

/** `session.data` has the type of what `authenticate` returns as `data`, as it is after its way through JSON. */
export const accounts = createServer({
  authenticate: async ({ token }) =>
    token === undefined ? null : { principal: token, data: { name: token, since: new Date() } },
  onSession: (session) => {
    const since: string = session.data.since;
    session.data = { name: `${session.data.name} ${since}`, since: new Date() };
    // @ts-expect-error: the data has no member of this name
    logger.info({ event: 'session', role: session.data.role }, session.userAgent ?? session.remoteAddress);
  },
  onRequest: (_request, { session }) => `${session.data.name}, here since ${new Date(session.startedAt)}`,
});
/** As applications are written that know no types: an empty token refuses, an option may be undefined, callbacks may be asynchronous. */
export const idioms = createServer({
  authenticate: ({ token }) => token && { principal: token, data: { room: 'lobby' } },
  limits: { maxMessageSize: process.env['SIZE'] === undefined ? undefined : 1024 },
  onError: async (error) => await Promise.resolve(String(error)),
  onSession(session) {
    const room = idioms.group(session.data.room);
    room.add(session);
    session.on('state', async (state) => await room.send(state, { except: session }));
  },
});

for (const { data } of accounts.sessions.values()) data.name satisfies string;

export const stated = createServer<string[] | undefined>({
  onSession: (session) => {
    session.data = [...(session.data ?? []), 'again'];
    // @ts-expect-error: it is a list
    session.data = 'again';
  },
});

/** Hooks and groups see the type of the data as well. */
export const rooms = createServer({
  authenticate: () => ({ principal: 'ann', data: { room: 'lobby' } }),
  features: [
    hooks<{ room: string }>([
      async (context, next) => {
        logger.info({ event: context.kind, room: context.session.data.room }, context.message.text);
        if (context.kind === 'request' && context.signal.aborted) return 'too late';
        return await next();
      },
      (_context, next) => next(),
      async (_context, next) => {
        await next();
      },
    ]),
  ],
  async onSession(session) {
    rooms.group(session.data.room).add(session);
    for await (const { text } of session) {
      const { refused } = await rooms.group('lobby').send(text, { except: session });
      for (const { session: slow, error } of refused)
        await slow.close({ code: error.code, reason: slow.data.room });
    }
  },
});
