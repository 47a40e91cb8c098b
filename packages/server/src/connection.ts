import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import {
  CloseCode,
  createSession,
  Endpoint,
  type HelloPayload,
  newSessionId,
  ProtocolError,
  type Subprotocol,
  systemClock,
} from '@parlance/protocol';
import type { ServerWire } from './adapters/ws.js';
import { bearerToken, type Identity, isLoopback, type Refusal, UNAUTHENTICATED } from './admission.js';
import type { ResolvedServerOptions } from './options.js';

/** What a connection needs of the server it belongs to. */
export interface ConnectionHost {
  readonly options: ResolvedServerOptions;
  /** Asked before a session is accepted: full or draining. */
  admit(): Refusal | undefined;
  /** The session is established; its user may have it. */
  onReady(session: Endpoint): void;
  onEnded(session: Endpoint, error: ProtocolError | undefined): void;
}

/**
 * One accepted WebSocket connection: feeds its session, admits or refuses its HELLO.
 *
 * @param refusal a decision made at the upgrade, which the client is told in REJECT, because a browser
 * does not see an HTTP refusal.
 */
export function serveConnection(
  host: ConnectionHost,
  wire: ServerWire,
  request: IncomingMessage,
  subprotocol: Subprotocol,
  refusal: Refusal | undefined,
): Endpoint {
  const { options } = host;
  const { limits, timers, capabilities, logger } = options;
  const ip = request.socket.remoteAddress ?? '';

  const core = createSession({
    role: 'server',
    subprotocol,
    capabilities,
    limits,
    timers,
    timeOrigin: systemClock.timeOrigin,
  });
  const session: Endpoint = new Endpoint({
    core,
    clock: systemClock,
    limits,
    role: 'server',
    onRequest: options.onRequest,
    security: options.security,
    logger,
    onHello: ({ hello }) => void admit(hello),
    onReady: () => host.onReady(session),
    onEnded: (error) => {
      logger.debug({ session: core.id, code: error?.code }, 'session ended');
      host.onEnded(session, error);
    },
  });

  const refuse = ({ code, message, closeCode }: Refusal): void => {
    logger.info({ ip, code, closeCode }, `refused: ${message}`);
    core.reject({ code, message }, closeCode, systemClock.now());
    session.pump();
  };

  const admit = async (hello: HelloPayload): Promise<void> => {
    const identity = await authenticate(hello);
    // The client may have gone, or timed out, while it was being looked up.
    if (core.state !== 'connecting') return;
    const refused = identity === undefined ? UNAUTHENTICATED : host.admit();
    if (refused !== undefined || identity === undefined) return refuse(refused ?? UNAUTHENTICATED);
    session.principal = identity.principal;
    session.agentId = identity.agentId;
    const outcome = core.accept(newSessionId(), systemClock.now(), identity.agentId);
    if (outcome.accepted) {
      logger.info(
        {
          ip,
          session: core.id,
          algorithms: outcome.agreement.algorithms,
          encoding: outcome.agreement.encoding,
        },
        'session accepted',
      );
    } else {
      logger.info({ ip, code: outcome.reject.code }, `refused: ${outcome.reject.message}`);
    }
    session.pump();
  };

  const authenticate = async (hello: HelloPayload): Promise<Identity | undefined> => {
    if (options.authenticate === undefined) {
      return isLoopback(ip) ? { principal: `local-${randomUUID()}`, agentId: hello.agentId } : undefined;
    }
    try {
      const identity = await options.authenticate({
        token: hello.auth?.token ?? bearerToken(request.headers),
        origin: request.headers.origin,
        agentId: hello.agentId,
        ip,
        headers: request.headers,
      });
      if (identity === null || identity === undefined) return undefined;
      return identity.expiresAt !== undefined && identity.expiresAt <= Date.now() ? undefined : identity;
    } catch (error) {
      logger.warn({ ip, err: error }, 'authenticate threw, which refuses');
      return undefined;
    }
  };

  // What a stranger may send before ACCEPT is bounded as a whole, not only message by message.
  const guardHandshake = (): void => {
    if (core.state !== 'connecting') {
      request.socket.off('data', guardHandshake);
    } else if (request.socket.bytesRead > handshakeBudget) {
      request.socket.off('data', guardHandshake);
      session.abort(
        new ProtocolError('message_too_large', `more than ${limits.maxHandshakeSize} bytes before ACCEPT`, {
          closeCode: CloseCode.TOO_LARGE,
        }),
      );
      // Nothing more is read from somebody who does not stop to listen.
      setTimeout(() => wire.terminate(), timers.closingTimeoutMs).unref();
    }
  };
  const handshakeBudget = request.socket.bytesRead + limits.maxHandshakeSize + WEBSOCKET_OVERHEAD;
  request.socket.on('data', guardHandshake);

  wire.listen({
    onMessage: (data) => session.handleMessage(data),
    onDrain: () => session.handleWritable(),
    onClose: (code, reason) => session.handleDisconnected(code, reason),
  });
  session.handleConnected(wire);
  if (refusal !== undefined) refuse(refusal);
  return session;
}

/** Frame headers and control frames that may surround a HELLO of the largest size. */
const WEBSOCKET_OVERHEAD = 4 * 1024;
