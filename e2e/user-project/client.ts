import {
  type AgentChange,
  type AgentInfo,
  type AgentOptions,
  type Agents,
  type Algorithm,
  type ClientOptions,
  type ClientSession,
  connect,
  type DirectionStats,
  type ErrorCode,
  isProtocolError,
  type Logger,
  type M2MSecurity,
  type Message,
  type Negotiated,
  type Part,
  type ProtocolError,
  type ReconnectOptions,
  type ReplyStream,
  type RequestContext,
  RequestError,
  type RequestOptions,
  type SendOptions,
  type Session,
  type SessionEvents,
  type SessionFetch,
  type SessionReset,
  type SessionState,
  type SessionStats,
  type Subprotocol,
  type TokenSource,
  type UnconfirmedBody,
  type Undelivered,
} from '@parlance/client';

/** A client as an application writes it, for Node and for browsers. */

const logger: Logger = console;
const reconnect: ReconnectOptions = { minDelayMs: 50, maxDelayMs: 5_000 };
const agent: AgentOptions = { metadata: { skill: 'sums', models: ['a', 'b'] } };
const token: TokenSource = async () => 'secret';
const subprotocol: Subprotocol = 'm2m.v1';

export const options: ClientOptions = {
  agent,
  agentId: 'planner',
  algorithms: ['TOKEN_NATIVE', 'NONE'],
  limits: { maxMessageSize: 1024 * 1024 },
  logger,
  onRequest: answer,
  reconnect,
  signal: AbortSignal.timeout(10_000),
  subprotocol,
  token,
};

export const security: M2MSecurity = { mode: 'AEAD', key: new Uint8Array(32) };

function answer(request: Message, { signal }: RequestContext): Part {
  if (signal.aborted) throw new RequestError('too_late', 'the caller has left');
  return request.from === undefined ? 'the server asked' : { text: `${request.from} asked` };
}

/** A session with the state that a page shows. */
export class Chat {
  readonly #session: Session;
  readonly #off: readonly (() => void)[];
  state: SessionState = 'established';

  private constructor(session: Session) {
    this.#session = session;
    this.#off = [
      session.on('state', (state) => {
        this.state = state;
      }),
      session.on('reset', onReset),
      session.on('error', (error: ProtocolError) => show(error)),
      listen(session, 'undelivered', onUndelivered),
    ];
  }

  static async open(url: string | URL): Promise<Chat> {
    return new Chat(await connect(url, options));
  }

  async ask(question: string, onWord: (word: string) => void, signal?: AbortSignal): Promise<number> {
    const asked: RequestOptions = { metadata: { thread: 1 }, timeoutMs: 30_000, signal, to: 'worker-1' };
    const reply: ReplyStream = this.#session.stream({ question }, asked);
    for await (const part of reply) onWord(part.text);
    return reply.id;
  }

  async close(): Promise<void> {
    for (const off of this.#off) off();
    const { unacknowledged } = await this.#session.close();
    if (unacknowledged > 0) console.warn(`${unacknowledged} frames may be lost`);
  }
}

/** Adds a listener for any event. */
function listen<Name extends keyof SessionEvents>(
  session: Session,
  name: Name,
  listener: (event: SessionEvents[Name]) => void,
): () => void {
  return session.on(name, listener);
}

function onReset({ reason, notSent, unknown }: SessionReset): void {
  console.warn(`session lost: ${reason}; not sent: ${kindsOf(notSent)}; unknown: ${kindsOf(unknown)}`);
}

function kindsOf(bodies: readonly UnconfirmedBody[]): string {
  return bodies.map(({ kind }) => kind).join(', ');
}

function onUndelivered({ to, outcome, code, count }: Undelivered): void {
  console.warn(`${count} messages to ${to}: ${outcome}, ${code}`);
}

const ADVICE: Partial<Record<ErrorCode, string>> = {
  rejected: 'check the token',
  session_lost: 'ask again',
  timeout: 'try later',
};

export function show(error: unknown): string {
  if (!isProtocolError(error)) return String(error);
  if (error instanceof RequestError) return `${error.code}: ${JSON.stringify(error.data)}`;
  const code: ErrorCode = error.code;
  return ADVICE[code] ?? `${error.message} (${error.reject?.code ?? code})`;
}

/** @returns the bytes that each line took on average. */
export async function sendAll(
  session: Session,
  lines: readonly string[],
  algorithm: Algorithm,
): Promise<number> {
  const options: SendOptions = { algorithm, compressAlone: true };
  for (const line of lines) await session.send(line, options).catch(show);
  await session.flush();
  const stats: SessionStats = session.stats();
  return average(stats.sent);
}

/** Without a return type: its declaration must be able to name the inferred one. */
export const sentSoFar = (session: Session) => session.stats().sent;

function average({ wireBytes, messages }: DirectionStats): number {
  return wireBytes / messages;
}

/** Waits for an agent with a skill. */
export async function find(session: Session, skill: string): Promise<readonly AgentInfo[]> {
  const agents: Agents = await session.agents();
  for await (const change of agents) if (hasJoined(change, skill)) break;
  return agents.list.filter(({ compatibility }) => compatibility.mode === 'latent');
}

function hasJoined({ type, agent }: AgentChange, skill: string): boolean {
  return type === 'joined' && agent.metadata['skill'] === skill;
}

export function describe({ algorithms, encoding }: Negotiated): string {
  return `${algorithms.join(', ')} with ${encoding}`;
}

export const fetchOver = (session: ClientSession): SessionFetch => session.fetch;
