import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import {
  type AgreementCache,
  CloseCode,
  createSession,
  Endpoint,
  type EventRoute,
  type HelloPayload,
  newSessionId,
  ProtocolError,
  type RequestHandler,
  ResumeRefusal,
  type Subprotocol,
  systemClock,
} from '@parlance/protocol';
import type { ServerWire } from './adapters/ws.js';
import { addressKey, isForwarded } from './addresses.js';
import { bearerToken, type Identity, type Refusal, UNAUTHENTICATED } from './admission.js';
import { type AuthenticationOptions, identify } from './authentication.js';
import type { ResolvedServerOptions } from './options.js';

/** What a connection needs of the server it belongs to. */
export interface ConnectionHost {
  readonly options: ResolvedServerOptions;
  readonly agreements: AgreementCache;
  readonly onRequest: RequestHandler | undefined;
  /** Asked before a session is accepted: draining, or too many of them. Counts the session it admits. */
  admit(address: string, principal: string | undefined): Refusal | undefined;
  /** A session that was admitted is over. */
  release(address: string, principal: string | undefined): void;
  /** A session by its ID, connected or suspended. */
  find(sessionId: string): Endpoint | undefined;
  /** Where the events go that are for other sessions; `undefined` where there are no agents. */
  routeOf(session: () => Endpoint): EventRoute | undefined;
  /** Before ACCEPT: whether the session may be the agent that it has authenticated as. */
  claim(session: Endpoint, hello: HelloPayload): Refusal | undefined;
  /** The session is established; its user may have it. */
  onReady(session: Endpoint): void;
  /** The session has lost its connection and may be taken up on another one. */
  onWireLost(session: Endpoint): void;
  /** The connection has taken up another session than its own. */
  onTakenUp(session: Endpoint, own: Endpoint): void;
  /** The client was told that it is not admitted. */
  onRefused(refusal: Refusal): void;
  /** The session is over. */
  onEnded(session: Endpoint, error: ProtocolError | undefined): void;
}

/** Who is at the other end of a connection, before anybody knows who it is. */
export interface Peer {
  /** Behind the trusted proxies. */
  readonly ip: string;
  readonly request: IncomingMessage;
}

/** What is kept of a connection for as long as its client may send new credentials. */
interface Origin {
  readonly ip: string;
  readonly agentId: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly isForwarded: boolean;
}

/** Origins of the connections whose credentials end, by the session that they carry. */
const renewable = new WeakMap<Endpoint, Origin>();

/**
 * One accepted WebSocket connection: feeds its session, admits or refuses its HELLO.
 *
 * @param refusal a decision made at the upgrade, which the client is told in REJECT, because a browser
 * does not see an HTTP refusal.
 */
export function serveConnection(
  host: ConnectionHost,
  wire: ServerWire,
  { ip, request }: Peer,
  subprotocol: Subprotocol,
  refusal: Refusal | undefined,
): Endpoint {
  const { options } = host;
  const { limits, timers, capabilities, logger } = options;
  const address = addressKey(ip);
  const authentication: AuthenticationOptions = {
    authenticate: options.authenticate,
    logger,
    now: Date.now,
  };
  /** The upgrade, until it has been judged: a session lives longer than its use. */
  let upgrade: IncomingMessage | undefined = request;
  let isAdmitted = false;

  const core = createSession({
    role: 'server',
    subprotocol,
    capabilities,
    limits,
    timers,
    avp: options.avp,
    agreements: host.agreements,
    timeOrigin: systemClock.timeOrigin,
  });
  const session: Endpoint = new Endpoint({
    core,
    clock: systemClock,
    limits,
    role: 'server',
    onRequest: host.onRequest,
    batch: options.batch,
    security: options.security,
    scan: options.scan,
    route: host.routeOf(() => session),
    transfers: options.transfers,
    logger,
    onHello: ({ hello }) => void admit(hello),
    onAuth: (token) => void renew(token),
    onReady: () => host.onReady(session),
    onWireLost: () => host.onWireLost(session),
    onEnded(error) {
      if (isAdmitted) host.release(address, countedPrincipal(session.principal));
      host.onEnded(session, error);
    },
  });
  /** The session that this connection feeds: its own, or the one that it has taken up. */
  let target = session;

  const refuse = (refusal: Refusal): void => {
    const { code, message, closeCode, retryable, retryAfterMs } = refusal;
    logger.info({ event: 'session.refused', ip, code, closeCode }, `refused: ${message}`);
    host.onRefused(refusal);
    core.reject({ code, message, retryable, retryAfterMs }, closeCode, systemClock.now());
    session.pump();
  };

  const admit = async (hello: HelloPayload): Promise<void> => {
    const origin = originOf(upgrade as IncomingMessage, ip, hello.agentId);
    const token = hello.auth?.token ?? bearerToken(origin.headers);
    const identity = await identify(
      { token, origin: origin.headers.origin, agentId: hello.agentId, ip, headers: origin.headers },
      origin.isForwarded,
      authentication,
    );
    upgrade = undefined;
    // The client may have gone, or timed out, while it was being looked up.
    if (core.state !== 'connecting') return;
    if (identity === undefined) return refuse(UNAUTHENTICATED);
    const outcome = takeUp(hello, identity);
    if (outcome !== 'taken_up') {
      const refused = host.admit(address, countedPrincipal(identity.principal));
      if (refused !== undefined) return refuse(refused);
      isAdmitted = true;
      accept(hello, identity, outcome);
    }
    grant(identity, origin);
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
    host.onTakenUp(found, session);
    found.handleResumed(wire, resume);
    logger.info(
      { event: 'session.resumed', ip, session: found.id, attempt: resume.attempt },
      'session taken up again',
    );
    return 'taken_up';
  };

  /** Without authentication each connection is somebody new, and the resume token says who it is. */
  const isSamePrincipal = (found: Endpoint, identity: Identity): boolean =>
    options.authenticate === undefined ||
    (found.principal === identity.principal && found.agentId === identity.agentId);

  /** Nobody is counted as the principal that was made up for one connection. */
  const countedPrincipal = (principal: string | undefined): string | undefined =>
    options.authenticate === undefined ? undefined : principal;

  const accept = (hello: HelloPayload, identity: Identity, refusal: ResumeRefusal | undefined): void => {
    const { principal, agentId } = identity;
    session.principal = principal;
    session.agentId = agentId;
    const conflict = host.claim(session, hello);
    if (conflict !== undefined) return refuse(conflict);
    const outcome = core.accept(newSessionId(), systemClock.now(), { agentId, refusal });
    if (outcome.accepted) {
      const { algorithms, encoding } = outcome.agreement;
      logger.info(
        { event: 'session.accepted', ip, session: core.id, algorithms, encoding },
        'session accepted',
      );
    } else {
      const { code, message } = outcome.reject;
      logger.info({ event: 'session.refused', ip, code }, `refused: ${message}`);
      host.onRefused({ code, message, closeCode: CloseCode.BAD_FRAME });
    }
    session.pump();
  };

  /** Tells the client until when its credentials are good, and is ready for those that follow. */
  const grant = ({ expiresAt }: Identity, origin: Origin): void => {
    if (expiresAt === undefined || target.hasEnded) return;
    renewable.set(target, origin);
    target.grant(Math.floor(expiresAt));
  };

  const renew = async (token: string): Promise<void> => {
    const origin = renewable.get(session);
    // Credentials that nobody asks for, or that do not end, are as good as before.
    if (origin === undefined) return session.grant(null);
    const { agentId, headers } = origin;
    const identity = await identify(
      { token, origin: headers.origin, agentId, ip: origin.ip, headers },
      origin.isForwarded,
      authentication,
    );
    if (session.hasEnded) return;
    const isSame = identity?.principal === session.principal && identity?.agentId === session.agentId;
    if (identity === undefined || !isSame) {
      const why = identity === undefined ? 'were refused' : 'are those of somebody else';
      logger.warn({ event: 'auth.refused', ip: origin.ip, session: session.id }, `new credentials ${why}`);
      session.abort(new ProtocolError('unauthenticated', `the new credentials ${why}`));
      return;
    }
    logger.debug({ event: 'auth.renewed', session: session.id }, 'credentials renewed');
    session.grant(identity.expiresAt === undefined ? null : Math.floor(identity.expiresAt));
  };

  guardHandshake(request, wire, options, session, () => target === session && core.state === 'connecting');
  wire.listen({
    onMessage: (data) => target.handleMessage(data, wire),
    onDrain: () => target.handleWritable(),
    onClose: (code, reason) => target.handleDisconnected(code, reason, wire),
  });
  session.handleConnected(wire);
  if (refusal !== undefined) refuse(refusal);
  return session;
}

function originOf(upgrade: IncomingMessage, ip: string, agentId: string | undefined): Origin {
  return { ip, agentId, headers: upgrade.headers, isForwarded: isForwarded(upgrade) };
}

/** Frame headers and control frames that may surround a HELLO of the largest size. */
const WEBSOCKET_OVERHEAD = 4 * 1024;

/** What a stranger may send before ACCEPT is bounded as a whole, not only message by message. */
function guardHandshake(
  { socket }: IncomingMessage,
  wire: ServerWire,
  { limits, timers }: ResolvedServerOptions,
  session: Endpoint,
  isPending: () => boolean,
): void {
  const budget = socket.bytesRead + limits.maxHandshakeSize + WEBSOCKET_OVERHEAD;
  const check = (): void => {
    if (isPending() && socket.bytesRead <= budget) return;
    socket.off('data', check);
    if (!isPending()) return;
    session.abort(
      new ProtocolError('message_too_large', `more than ${limits.maxHandshakeSize} bytes before ACCEPT`, {
        closeCode: CloseCode.TOO_LARGE,
      }),
    );
    // Nothing more is read from somebody who does not stop to listen.
    setTimeout(() => wire.terminate(), timers.closingTimeoutMs).unref();
  };
  socket.on('data', check);
}
