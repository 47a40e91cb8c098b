import {
  type AgentOptions,
  type BatchOptions,
  type CapabilityOptions,
  CloseCode,
  createSession,
  type Limits,
  type Logger,
  type M2MSecurity,
  ProtocolError,
  type RequestHandler,
  resolveLimits,
  resolveTimers,
  type Session,
  Subprotocol,
  type Timers,
} from '@parlance/protocol';
import {
  assertOptions,
  CAPABILITY_KINDS,
  type Crashable,
  createSweep,
  Endpoint,
  GuardedClock,
  guard,
  guardLater,
  guardLogger,
  isStatedAgentId,
  loggable,
  type OptionKinds,
  resolveBatchOptions,
  resolveCapabilities,
  resolveSecurity,
  type Sweep,
  sweepInterval,
  systemClock,
  type Wire,
} from '@parlance/protocol/internal';
import { connectionFailure, connectionTimeout, resolveUrl } from './address.js';
import { openWebSocket, type WebSocketConstructor } from './connection.js';
import { watchPage } from './environment.js';
import { createFetch, type SessionFetch } from './fetch.js';
import { createBackoff, type ReconnectOptions } from './reconnect.js';
import { createRenewal } from './renewal.js';

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

/** A session as a client holds it. */
export interface ClientSession extends Session {
  /** `fetch` over this session, bound to it; see {@link SessionFetch} for what it carries. */
  readonly fetch: SessionFetch;
}

class ClientEndpoint extends Endpoint implements ClientSession {
  readonly fetch = createFetch(this);
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
    /** There has been a session, although its codecs may still be loading: a lost connection is replaced. */
    let isAccepted = false;
    let cancelRetry: (() => void) | undefined;
    let isAskedToWait = false;
    /** The session, for what may fail before it is there. */
    const owner: Crashable = { crash: (error) => session.crash(error) };
    const clock = new GuardedClock(systemClock, owner);

    /** The connection that is being opened. */
    let dialing: Wire | undefined;
    const dial = (token: string | undefined): void => {
      let stopWaiting = (): void => {};
      let isTooLate = false;
      const wire = openWebSocket(target, subprotocol, options.WebSocket, {
        session: owner,
        onOpen() {
          stopWaiting();
          dialing = undefined;
          session.handleConnected(wire, token);
        },
        onMessage: (data) => session.handleMessage(data, wire),
        onWritable: () => session.handleWritable(),
        onClose(code, reason, failure) {
          stopWaiting();
          if (dialing !== wire) return session.handleDisconnected(code, reason, wire);
          dialing = undefined;
          // An attempt that got nowhere is news only while there has been no session yet.
          if (isAccepted) retryLater();
          else if (isTooLate) session.abort(connectionTimeout(target, timers.acceptTimeoutMs));
          else session.abort(connectionFailure(target, failure));
        },
      });
      dialing = wire;
      // What neither opens nor fails would be waited for without end.
      if (Number.isFinite(timers.acceptTimeoutMs)) {
        stopWaiting = clock.after(timers.acceptTimeoutMs, () => {
          isTooLate = true;
          wire.close(CloseCode.NORMAL, '');
        });
      }
    };

    /** @param retryAfterMs what the server asked for, which is spread already. */
    const retryLater = (retryAfterMs = 0): void => {
      if (backoff === undefined || !isAccepted || session.hasEnded || cancelRetry !== undefined) return;
      isAskedToWait = retryAfterMs > 0;
      const delay = isAskedToWait ? retryAfterMs : backoff.next();
      cancelRetry = clock.after(delay, retryNow);
    };
    const retryNow = (): void => {
      cancelRetry?.();
      cancelRetry = undefined;
      const isNeeded = () => dialing === undefined && !session.hasWire && !session.hasEnded;
      if (!isNeeded()) return;
      const asked = askToken().then(
        (token) => {
          if (isNeeded()) dial(token);
        },
        (error: unknown) => {
          logger?.warn(
            { event: 'token.failed', err: loggable(error) },
            'the token function failed, trying again',
          );
          retryLater();
        },
      );
      guardLater(owner, asked);
    };
    const stopListening = watchPage({
      onSignOfLife: () =>
        guard(owner, () => {
          if (cancelRetry !== undefined && !isAskedToWait) retryNow();
        }),
      // Said in time, CLOSE spares the server a window in which nobody comes back.
      onGone: () => guardLater(owner, session.close()),
    });

    const renewal = createRenewal({
      askToken: typeof options.token === 'function' ? askToken : undefined,
      authenticate: (token) => session.authenticate(token),
      clock,
      logger,
    });

    const release = (): void => {
      renewal.stop();
      signal?.removeEventListener('abort', onAbort);
      stopListening();
      cancelRetry?.();
      const unwanted = dialing;
      dialing = undefined;
      unwanted?.close(CloseCode.NORMAL, '');
      sweep.delete(session);
    };
    const session = new ClientEndpoint({
      core: createCore(),
      renew: backoff === undefined ? undefined : createCore,
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
      onAccepted() {
        isAccepted = true;
      },
      onReady() {
        signal?.removeEventListener('abort', onAbort);
        backoff?.reset();
        session.agentId = agentId;
        resolve(session);
      },
      onWireLost(retryAfterMs) {
        renewal.stop();
        retryLater(retryAfterMs);
      },
      onEnded(error) {
        release();
        reject(error ?? new ProtocolError('session_closed', 'closed while connecting'));
      },
    });
    session.on('state', (state) => {
      if (state !== 'established' && state !== 'closing') return;
      backoff?.reset();
      // Closing does not take long, so neither may what it needs a connection for.
      if (state === 'closing' && cancelRetry !== undefined) retryNow();
    });
    const onAbort = () => {
      reject(signal?.reason);
      guardLater(owner, session.close());
      guard(owner, () => dialing?.close(CloseCode.NORMAL, ''));
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    sweep.add(session);
    try {
      dial(firstToken);
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
