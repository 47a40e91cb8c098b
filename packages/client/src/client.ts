import {
  type AgentOptions,
  type BatchOptions,
  type CapabilityOptions,
  createSession,
  type Limits,
  type Logger,
  type M2MSecurity,
  ProtocolError,
  type RequestHandler,
  resolveLimits,
  resolveTimers,
  Subprotocol,
  type Timers,
} from '@parlance/protocol';
import {
  assertOptions,
  CAPABILITY_KINDS,
  createSweep,
  GuardedClock,
  guard,
  guardLater,
  guardLogger,
  isStatedAgentId,
  type OptionKinds,
  resolveBatchOptions,
  resolveCapabilities,
  resolveSecurity,
  type Sweep,
  sweepInterval,
  systemClock,
} from '@parlance/protocol/internal';
import { resolveUrl } from './address.js';
import type { WebSocketConstructor } from './connection.js';
import { Dialer } from './dialer.js';
import { watchPage } from './environment.js';
import { createBackoff, type ReconnectOptions } from './reconnect.js';
import { createRenewal } from './renewal.js';
import type { ClientSession } from './session.js';
import { Succession } from './succession.js';

/** A function is asked at each connection, and in time before the credentials end. */
export type TokenSource = string | (() => string | Promise<string>);

export interface ClientOptions extends CapabilityOptions {
  readonly token?: TokenSource | undefined;
  /** How this client calls itself; the server decides whether it may. */
  readonly agentId?: string | undefined;
  /** What other agents of the server may learn about this one, beside the model of `avp`. */
  readonly agent?: AgentOptions | undefined;
  /** @default the runtime's own, where it has one */
  readonly WebSocket?: WebSocketConstructor | undefined;
  /** Gives up connecting; a session that is established is not touched. */
  readonly signal?: AbortSignal | undefined;
  /** Answers requests of the server, and of other agents: `request.from` says whose. @default answers `unsupported` */
  readonly onRequest?: RequestHandler | undefined;
  /** Joins the parts of replies; a handler may say otherwise for its own. @default every part by itself */
  readonly batch?: BatchOptions | undefined;
  /**
   * Protection that every body carries and must have, in both directions. The session agrees on M2M alone, without
   * context coding, tokens and tensors; a body without the protection ends it with `security_required`. Metadata and
   * errors are not protected. @default none
   */
  readonly security?: M2MSecurity | undefined;
  /**
   * Connects again after a lost connection, with full jitter between the delays; `false` does not, and
   * then a lost connection ends the session, as a server that drains does. The first attempt is never
   * repeated.
   */
  readonly reconnect?: ReconnectOptions | false | undefined;
  /** What is offered to the server: 'm2m.v1' is binary, 'm2m.v1.json' is for debugging. @default 'm2m.v1' */
  readonly subprotocol?: Subprotocol | undefined;
  /** Bounds of what is received. @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits> | undefined;
  /** @default DEFAULT_TIMERS */
  readonly timers?: Partial<Timers> | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /**
   * Asked at each request for the W3C `traceparent` that it carries as metadata, so that the handler's
   * trace continues the caller's. @default none
   */
  readonly traceparent?: (() => string | undefined) | undefined;
}

const KINDS: OptionKinds<ClientOptions> = {
  ...CAPABILITY_KINDS,
  token: ['text', 'function'],
  agentId: 'text',
  agent: 'object',
  WebSocket: 'class',
  signal: 'signal',
  onRequest: 'function',
  batch: 'object',
  security: 'object',
  reconnect: ['object', 'false'],
  subprotocol: 'text',
  limits: 'object',
  timers: 'object',
  logger: 'logger',
  traceparent: 'function',
};
const KINDS_OF_AGENT: OptionKinds<AgentOptions> = { metadata: 'object' };

/**
 * Connects to a session server and negotiates. Resolves when the session is established and the
 * codecs and the vocabulary that it needs are loaded.
 *
 * @param url `ws:` or `wss:`, for which `http:` and `https:` may stand; never put a secret into it.
 * @throws {ProtocolError} `invalid_option`; `connection_failed`; `rejected`, with the server's REJECT;
 * `bad_acceptance`; `timeout`. The signal's reason after an abort.
 */
export async function connect(url: string | URL, options: ClientOptions = {}): Promise<ClientSession> {
  assertOptions(options, KINDS);
  if (options.agent !== undefined) assertOptions(options.agent, KINDS_OF_AGENT);
  const { signal, agentId, onRequest, traceparent, transfers } = options;
  const logger = options.logger && guardLogger(options.logger);
  const target = resolveUrl(url);
  const subprotocol = resolveSubprotocol(options.subprotocol);
  const security = resolveSecurity(options.security);
  if (agentId !== undefined && !isStatedAgentId(agentId)) {
    throw new ProtocolError(
      'invalid_option',
      'agentId: 1 to 128 of letters, digits and . _ : @ - are expected',
    );
  }
  const batch = resolveBatchOptions(options.batch);
  const limits = resolveLimits(options.limits);
  const timers = resolveTimers(options.timers);
  const { reconnect = {} } = options;
  const backoff = reconnect === false ? undefined : createBackoff(reconnect);
  const capabilities = resolveCapabilities(
    reconnect === false ? { ...options, extensions: { ...options.extensions, resume: false } } : options,
    limits,
  );
  const askToken = async () => {
    const token = typeof options.token === 'function' ? await options.token() : options.token;
    assertToken(token);
    return token;
  };
  signal?.throwIfAborted();
  const firstToken = await askToken();
  signal?.throwIfAborted();

  const createCore = () =>
    createSession({
      role: 'client',
      subprotocol,
      capabilities,
      limits,
      timers,
      agentId,
      token: firstToken,
      avp: options.avp,
      security,
      timeOrigin: systemClock.timeOrigin,
    });

  return await new Promise<ClientSession>((resolve, reject) => {
    const sweep = sweepOf(timers);
    const succession = new Succession({
      createCore,
      isRenewed: backoff !== undefined,
      agentId,
      endpoint: {
        clock: systemClock,
        limits,
        maxAssembledSize: options.limits?.maxTransferSize,
        role: 'client',
        onRequest,
        batch,
        security,
        transfers,
        logger,
        traceparent,
        onGranted: (expiresInMs) => renewal.handleGranted(expiresInMs),
      },
      onReady() {
        signal?.removeEventListener('abort', onAbort);
        backoff?.reset();
        resolve(succession.session);
      },
      onState(state) {
        if (state !== 'established' && state !== 'closing') return;
        backoff?.reset();
        // Closing does not take long, so the connection that it needs must not either.
        if (state === 'closing') dialer.retryNow();
      },
      onWireLost(retryAfterMs) {
        renewal.stop();
        dialer.retryLater(retryAfterMs);
      },
      onEnded(error) {
        release();
        reject(error ?? new ProtocolError('session_closed', 'closed while connecting'));
      },
    });
    const clock = new GuardedClock(systemClock, succession);
    const dialer = new Dialer({
      url: target,
      subprotocol,
      WebSocket: options.WebSocket,
      timeoutMs: timers.acceptTimeoutMs,
      backoff,
      clock,
      logger,
      askToken,
      session: succession,
    });
    const renewal = createRenewal({
      askToken: typeof options.token === 'function' ? askToken : undefined,
      authenticate: (token) => succession.current.authenticate(token),
      clock,
      logger,
    });
    const stopListening = watchPage({
      onSignOfLife: () => guard(succession, () => dialer.handleSignOfLife()),
      // CLOSE in time spares the server a window in which the client does not come back.
      onGone: () => guardLater(succession, succession.close()),
    });
    const release = (): void => {
      renewal.stop();
      signal?.removeEventListener('abort', onAbort);
      stopListening();
      dialer.stop();
      sweep.delete(succession);
    };
    const onAbort = () => {
      reject(signal?.reason);
      guardLater(succession, succession.close());
      guard(succession, () => dialer.abandon());
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    sweep.add(succession);
    try {
      dialer.dial(firstToken);
    } catch (error) {
      release();
      reject(error);
    }
  });
}

/** @throws {ProtocolError} `invalid_option`. */
function resolveSubprotocol(given: Subprotocol = Subprotocol.BINARY): Subprotocol {
  const names = Object.values(Subprotocol);
  if (names.includes(given)) return given;
  throw new ProtocolError('invalid_option', `subprotocol is one of ${names.join(', ')}`);
}

/** @throws {ProtocolError} `invalid_option`; the message does not repeat it. */
function assertToken(token: unknown): asserts token is string | undefined {
  if (token === undefined || (typeof token === 'string' && token !== '' && token.length <= MAX_TOKEN)) return;
  throw new ProtocolError(
    'invalid_option',
    `token: a string of 1 to ${MAX_TOKEN} characters is expected, or a function that returns one`,
  );
}
const MAX_TOKEN = 16 * 1024;

/** Sessions with the same resolution share one timer. */
const sweeps = new Map<number, Sweep>();
function sweepOf(timers: Timers): Sweep {
  const interval = sweepInterval(timers);
  const sweep = sweeps.get(interval) ?? createSweep(interval);
  sweeps.set(interval, sweep);
  return sweep;
}
