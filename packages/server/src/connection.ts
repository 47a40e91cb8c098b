import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import {
  type AgreementCache,
  CloseCode,
  createSession,
  Endpoint,
  type HelloPayload,
  newSessionId,
  ProtocolError,
  ResumeRefusal,
  type Subprotocol,
  systemClock,
} from '@parlance/protocol';
import type { ServerWire } from './adapters/ws.js';
import { bearerToken, type Identity, isLoopback, type Refusal, UNAUTHENTICATED } from './admission.js';
import type { ResolvedServerOptions } from './options.js';

/** What a connection needs of the server it belongs to. */
export interface ConnectionHost {
  readonly options: ResolvedServerOptions;
  readonly agreements: AgreementCache;
  /** Asked before a session is accepted: full or draining. */
  admit(): Refusal | undefined;
  /** A session by its ID, connected or suspended. */
  find(sessionId: string): Endpoint | undefined;
  /** The session is established; its user may have it. */
  onReady(session: Endpoint): void;
  /** The session has lost its connection and may be taken up on another one. */
  onWireLost(session: Endpoint): void;
  /** The session is over, or its connection has taken up another one. */
  onEnded(session: Endpoint): void;
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
  const { socket } = request;
  const ip = socket.remoteAddress ?? '';
  /** The headers of the upgrade, until they have been judged: a session lives longer than their use. */
  let headers: IncomingHttpHeaders | undefined = request.headers;

  const core = createSession({
    role: 'server',
    subprotocol,
    capabilities,
    limits,
    timers,
    agreements: host.agreements,
    timeOrigin: systemClock.timeOrigin,
  });
  const session: Endpoint = new Endpoint({
    core,
    clock: systemClock,
    limits,
    role: 'server',
    onRequest: options.onRequest,
    batch: options.batch,
    security: options.security,
    logger,
    onHello: ({ hello }) => void admit(hello),
    onReady: () => host.onReady(session),
    onWireLost: () => host.onWireLost(session),
    onEnded: (error) => {
      logger.debug({ session: core.id, code: error?.code }, 'session ended');
      host.onEnded(session);
    },
  });
  /** The session that this connection feeds: its own, or the one that it has taken up. */
  let target = session;

  const refuse = ({ code, message, closeCode }: Refusal): void => {
    logger.info({ ip, code, closeCode }, `refused: ${message}`);
    core.reject({ code, message }, closeCode, systemClock.now());
    session.pump();
  };

  const admit = async (hello: HelloPayload): Promise<void> => {
    const identity = await authenticate(hello);
    headers = undefined;
    // The client may have gone, or timed out, while it was being looked up.
    if (core.state !== 'connecting') return;
    if (identity === undefined) return refuse(UNAUTHENTICATED);
    const outcome = takeUp(hello, identity);
    if (outcome === 'taken_up') return;
    const refused = host.admit();
    if (refused !== undefined) return refuse(refused);
    accept(identity, outcome);
  };

  /** From the look-up to the takeover nothing waits, so no other connection can come in between. */
  const takeUp = (hello: HelloPayload, identity: Identity): 'taken_up' | ResumeRefusal | undefined => {
    const { resume } = hello;
    if (resume === undefined) return undefined;
    const found = host.find(resume.sessionId);
    // Another principal's session does not exist for anybody else.
    if (found === undefined || !isSamePrincipal(found, identity)) return ResumeRefusal.UNKNOWN_SESSION;
    const refused = found.core.checkResume(hello, subprotocol);
    if (refused === 'stale_attempt') {
      session.abort(new ProtocolError('stale_attempt', 'a newer attempt to resume was accepted'));
      return 'taken_up';
    }
    if (refused !== undefined) return refused;
    target = found;
    host.onEnded(session);
    found.handleResumed(wire, resume);
    logger.info({ ip, session: found.id, attempt: resume.attempt }, 'session taken up again');
    return 'taken_up';
  };

  /** Without authentication each connection is somebody new, and the resume token says who it is. */
  const isSamePrincipal = (found: Endpoint, identity: Identity): boolean =>
    options.authenticate === undefined ||
    (found.principal === identity.principal && found.agentId === identity.agentId);

  const accept = (identity: Identity, refusal: ResumeRefusal | undefined): void => {
    const { principal, agentId } = identity;
    session.principal = principal;
    session.agentId = agentId;
    const outcome = core.accept(newSessionId(), systemClock.now(), { agentId, refusal });
    if (outcome.accepted) {
      const { algorithms, encoding } = outcome.agreement;
      logger.info({ ip, session: core.id, algorithms, encoding }, 'session accepted');
    } else {
      logger.info({ ip, code: outcome.reject.code }, `refused: ${outcome.reject.message}`);
    }
    session.pump();
  };

  const authenticate = async (hello: HelloPayload): Promise<Identity | undefined> => {
    if (options.authenticate === undefined) {
      return isLoopback(ip)
        ? { principal: `local-${randomBytes(12).toString('hex')}`, agentId: hello.agentId }
        : undefined;
    }
    try {
      const identity = await options.authenticate({
        token: hello.auth?.token ?? bearerToken(headers ?? {}),
        origin: headers?.origin,
        agentId: hello.agentId,
        ip,
        headers: headers ?? {},
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
    if (target !== session || core.state !== 'connecting') {
      socket.off('data', guardHandshake);
    } else if (socket.bytesRead > handshakeBudget) {
      socket.off('data', guardHandshake);
      session.abort(
        new ProtocolError('message_too_large', `more than ${limits.maxHandshakeSize} bytes before ACCEPT`, {
          closeCode: CloseCode.TOO_LARGE,
        }),
      );
      // Nothing more is read from somebody who does not stop to listen.
      setTimeout(() => wire.terminate(), timers.closingTimeoutMs).unref();
    }
  };
  const handshakeBudget = socket.bytesRead + limits.maxHandshakeSize + WEBSOCKET_OVERHEAD;
  socket.on('data', guardHandshake);

  wire.listen({
    onMessage: (data) => target.handleMessage(data, wire),
    onDrain: () => target.handleWritable(),
    onClose: (code, reason) => target.handleDisconnected(code, reason, wire),
  });
  session.handleConnected(wire);
  if (refusal !== undefined) refuse(refusal);
  return session;
}

/** Frame headers and control frames that may surround a HELLO of the largest size. */
const WEBSOCKET_OVERHEAD = 4 * 1024;
