import {
  assertKnownOptions,
  type CapabilityOptions,
  createSession,
  createSweep,
  Endpoint,
  type Limits,
  type Logger,
  type M2MSecurity,
  ProtocolError,
  type RequestHandler,
  resolveCapabilities,
  resolveLimits,
  resolveTimers,
  type Session,
  Subprotocol,
  type Sweep,
  sweepInterval,
  systemClock,
  type Timers,
} from '@parlance/protocol';
import { openWebSocket, type WebSocketConstructor } from './connection.js';

/** Asked at each connection, so that a token that expires can be renewed. */
export type TokenSource = string | (() => string | Promise<string>);

export interface ClientOptions extends CapabilityOptions {
  readonly token?: TokenSource | undefined;
  /** How this client calls itself; the server decides whether it may. */
  readonly agentId?: string | undefined;
  /** @default the runtime's own, where it has one */
  readonly WebSocket?: WebSocketConstructor | undefined;
  /** Gives up connecting; a session that is established is not touched. */
  readonly signal?: AbortSignal | undefined;
  /** Answers requests of the server. @default answers `unsupported` */
  readonly onRequest?: RequestHandler | undefined;
  /** Protection that M2M frames carry and demand. @default none */
  readonly security?: M2MSecurity | undefined;
  /** What is offered to the server: 'm2m.v1' is binary, 'm2m.v1.json' is for debugging. @default 'm2m.v1' */
  readonly subprotocol?: Subprotocol | undefined;
  /** Bounds of what is received. @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits> | undefined;
  /** @default DEFAULT_TIMERS */
  readonly timers?: Partial<Timers> | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
}

const KNOWN = [
  'token',
  'agentId',
  'WebSocket',
  'signal',
  'onRequest',
  'security',
  'subprotocol',
  'limits',
  'timers',
  'logger',
  'algorithms',
  'encodings',
  'extensions',
] as const satisfies readonly (keyof ClientOptions)[];

/**
 * Connects to a session server and negotiates. Resolves when the session is established and the
 * codecs and the vocabulary that it needs are loaded.
 *
 * @param url `ws:` or `wss:`; never put a secret into it.
 * @throws {ProtocolError} `invalid_option`; `connection_failed`; `rejected`, with the server's REJECT;
 * `bad_acceptance`; `timeout`. The signal's reason after an abort.
 */
export async function connect(url: string | URL, options: ClientOptions = {}): Promise<Session> {
  assertKnownOptions(options, KNOWN);
  const { signal, logger, agentId, onRequest, security, subprotocol = Subprotocol.BINARY } = options;
  const limits = resolveLimits(options.limits);
  const timers = resolveTimers(options.timers);
  const capabilities = resolveCapabilities(options, limits);
  signal?.throwIfAborted();
  const token = typeof options.token === 'function' ? await options.token() : options.token;
  signal?.throwIfAborted();

  return await new Promise<Session>((resolve, reject) => {
    const core = createSession({
      role: 'client',
      subprotocol,
      capabilities,
      limits,
      timers,
      agentId,
      token,
      timeOrigin: systemClock.timeOrigin,
    });
    const sweep = sweepOf(timers);
    const session = new Endpoint({
      core,
      clock: systemClock,
      limits,
      role: 'client',
      onRequest,
      security,
      logger,
      onReady() {
        signal?.removeEventListener('abort', onAbort);
        session.agentId = agentId;
        resolve(session);
      },
      onEnded(error) {
        signal?.removeEventListener('abort', onAbort);
        sweep.delete(session);
        reject(error ?? new ProtocolError('session_closed', 'closed while connecting'));
      },
    });
    const onAbort = () => {
      reject(signal?.reason);
      void session.close();
      connection.close(1000, '');
    };
    const connection = openWebSocket(url, subprotocol, options.WebSocket, {
      onOpen: () => session.handleConnected(connection),
      onMessage: (data) => session.handleMessage(data),
      onClose: (code, reason) => session.handleDisconnected(code, reason),
    });
    signal?.addEventListener('abort', onAbort, { once: true });
    sweep.add(session);
  });
}

/** Sessions with the same resolution share one timer. */
const sweeps = new Map<number, Sweep>();
function sweepOf(timers: Timers): Sweep {
  const interval = sweepInterval(timers);
  const sweep = sweeps.get(interval) ?? createSweep(interval);
  sweeps.set(interval, sweep);
  return sweep;
}
