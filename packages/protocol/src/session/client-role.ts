import { CloseCode, isConnectionLoss, isRetryableCloseCode } from '../base/close-codes.js';
import { Extension, PROOF_FOR } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { clientAgreement, helloOf, isDurable } from '../control/agreement.js';
import { laterCodecs } from '../control/capabilities.js';
import {
  type AcceptMessage,
  type AuthMessage,
  type GoAwayPayload,
  type HelloPayload,
  type LaterCodec,
  RECORD_BEHIND,
  type RebuiltLink,
  type RejectPayload,
  type ResumeAnswer,
  ResumeRefusal,
} from '../control/messages.js';
import type { Negotiation } from '../control/negotiate.js';
import { Pacing } from '../link/pacing.js';
import { rejection } from './close-reason.js';
import { LifecycleEvent, LifecycleState } from './lifecycle.js';
import {
  assertAnswer,
  assertTakenUp,
  NOTHING,
  ResumeTicket,
  type Ticket,
  takenUpOf,
} from './resume-ticket.js';
import { type Disconnection, onlyFor, type Role, type RoleHost, type RoleMessage } from './role.js';

/** A client: sends HELLO, on the first connection and to resume the session on later ones. */
export class ClientRole implements Role {
  goAway: GoAwayPayload | undefined;
  retryAfterMs = 0;
  /** When the HELLO that resumes the session must be answered; `Infinity` unless one is under way. */
  answerDue = Infinity;
  readonly #session: RoleHost;
  /** The HELLO of the first connection. */
  #hello: HelloPayload | undefined;
  #ticket: ResumeTicket | undefined;
  /** Codecs that were not loaded at HELLO and are now. */
  readonly #ready = new Set<LaterCodec>();
  /** The server's REJECT, until the close code that follows it. */
  #rejected: RejectPayload | undefined;

  constructor(session: RoleHost) {
    this.#session = session;
  }

  get isResumable(): boolean {
    return this.#ticket !== undefined;
  }
  get ticket(): Ticket | undefined {
    const ticket = this.#ticketIf(Extension.REBUILD);
    const { negotiated, channel, options } = this.#session;
    if (ticket === undefined || negotiated === undefined || !isDurable(negotiated)) return ticket;
    return { ...ticket, have: channel.left ?? options.ticket?.have ?? NOTHING };
  }
  get proof(): Ticket | undefined {
    return this.#ticketIf(PROOF_FOR);
  }
  get suspensionMs(): number {
    return this.windowMs;
  }
  get windowMs(): number {
    return this.#ticket?.windowMs ?? this.#session.options.timers.resumeWindowMs;
  }
  get isRejected(): boolean {
    return this.#rejected !== undefined;
  }
  get handshakeTimeout(): string {
    return `the server did not answer HELLO within ${this.#session.options.timers.acceptTimeoutMs} ms`;
  }
  get credentialsEnd(): number {
    return Infinity;
  }
  get idleTimeoutMs(): number {
    return Infinity;
  }
  get awaitsStreams(): boolean {
    return true;
  }
  get awaitedCodecs(): ReadonlySet<LaterCodec> {
    return NONE_AWAITED;
  }
  get resumeProof(): undefined {
    return undefined;
  }
  get limiter(): undefined {
    return undefined;
  }

  // --- connections

  hello(token: string | undefined): Uint8Array | string {
    const { isLost, options, channel, id = '', control } = this.#session;
    const { ticket } = options;
    const resume = isLost
      ? this.#ticket && {
          ...this.#ticket.next(id, channel.framesReceived),
          have: channel.stateHave?.(),
        }
      : ticket && { ...ticket, attempt: ticket.attempt + 1, rebuild: true };
    const payload = helloOf(options, token, resume);
    if (!isLost) this.#hello = payload;
    return control.unbound({ type: 'HELLO', payload });
  }

  handleConnected(token: string | undefined, isSaid: boolean): void {
    this.retryAfterMs = 0;
    const { isLost, options, outbox, timers } = this.#session;
    if (isLost) this.answerDue = timers.now + options.timers.acceptTimeoutMs;
    if (!isSaid) outbox.pushControl(this.hello(token));
  }

  handleDisconnected(closeCode: number): Disconnection {
    const rejected = this.#rejected;
    const isRefused = rejected !== undefined || this.#isResuming;
    const { isLost, options } = this.#session;
    // The server keeps the session for a client that presents other credentials.
    const mayAsk = isLost && isRefused && closeCode === CloseCode.UNAUTHENTICATED;
    const waitMs = mayAsk ? options.onRefused?.() : undefined;
    this.retryAfterMs = waitMs ?? this.retryAfterMs;
    this.#rejected = undefined;
    this.answerDue = Infinity;
    const retryable = rejected?.retryable ?? isRetryableCloseCode(closeCode);
    return {
      // A server that is full or drains refuses the connection and keeps the session. If a copy of this HELLO
      // arrived first, the attempt is stale, and the next one is newer than both.
      isLoss: isRefused
        ? retryable || closeCode === CloseCode.STALE_ATTEMPT || waitMs !== undefined
        : isConnectionLoss(closeCode),
      rejection: rejected && rejection(rejected, { side: 'remote', closeCode, retryable }),
    };
  }

  forget(): void {
    this.#ticket = undefined;
  }

  /** A HELLO asks the server to resume the session and was not answered yet. */
  get #isResuming(): boolean {
    return this.answerDue !== Infinity;
  }

  #ticketIf(extension: string): Ticket | undefined {
    const { id, negotiated, channel } = this.#session;
    if (id === undefined || negotiated?.extensions[extension] === undefined) return undefined;
    return this.#ticket?.stateOf(id, channel.framesReceived);
  }

  // --- control messages

  handleControl(message: RoleMessage, frame: Uint8Array | string): void {
    switch (message.type) {
      case 'ACCEPT':
        return this.#handleAccept(message, frame);
      case 'REJECT':
        return this.#handleReject(message.payload);
      case 'AUTH':
        return this.#handleAuth(message);
      case 'GOAWAY':
        return this.#handleGoAway(message.payload);
      default:
        throw new ProtocolError('protocol_violation', `${message.type} is for a client to send`);
    }
  }

  handlePong(): void {}

  probe(): void {
    // The HELLO that waits for its answer may have gone with the connection.
    if (this.#isResuming)
      this.answerDue = Math.min(this.answerDue, this.#session.timers.now + PROBE_ANSWER_MS);
  }

  handleLinkFrame(): void {}

  #handleAccept({ sessionId, payload }: AcceptMessage, frame: Uint8Array | string): void {
    const session = this.#session;
    if (this.#isResuming) return this.#handleResumeAnswer(sessionId as string, payload.resume, frame);
    if (session.lifecycle !== LifecycleState.HELLO_SENT || this.#hello === undefined) {
      throw new ProtocolError('protocol_violation', 'ACCEPT must answer a HELLO');
    }
    const negotiated = clientAgreement(this.#hello, payload, session.options.avp);
    const { ticket } = session.options;
    const rebuilt = assertTakenUp(ticket, sessionId as string, payload.resume);
    if (negotiated.extensions[Extension.RESUME] !== undefined) {
      const attempt = rebuilt === undefined ? 0 : (ticket?.attempt ?? 0) + 1;
      this.#ticket = new ResumeTicket(assertAnswer(payload.resume), attempt);
    }
    session.outbox.pace = new Pacing(negotiated.limits);
    const last = rebuilt && { local: rebuilt.stream, remote: 0 };
    const takenUp = isDurable(negotiated) && rebuilt !== undefined ? takenUpOf(ticket, rebuilt) : undefined;
    session.agree(sessionId as string, negotiated, payload.extensions, last, takenUp);
    if (rebuilt !== undefined) session.emit({ type: 'takenUp', cancelled: rebuilt.cancelled });
    session.apply(LifecycleEvent.ACCEPT);
  }

  #handleResumeAnswer(sessionId: string, answer: ResumeAnswer | undefined, frame: Uint8Array | string): void {
    const session = this.#session;
    this.answerDue = Infinity;
    if (answer?.recovered !== true || sessionId !== session.id) {
      return session.handleSuperseded(notResumed(answer), frame);
    }
    session.handleResumed();
    // A server that still drains says so again. A session that closes for it is followed by another one all the same.
    if (session.lifecycle === LifecycleState.SUSPENDED) this.#drain(undefined);
    this.#ticket?.renew(answer);
    const { rebuilt, reason } = answer;
    // Before anything comes again. A session that closes awaits nothing that the record lacks.
    if (reason === RECORD_BEHIND && session.lifecycle === LifecycleState.SUSPENDED)
      session.emit({ type: 'behind' });
    if (rebuilt === undefined) session.channel.resume(answer.received);
    else this.#goOnWith(rebuilt);
    session.apply(LifecycleEvent.ACCEPT);
    // The last READY may have been lost with the connection.
    this.#sendReady();
  }

  /** The process that had the session is gone, and another one continues the session. */
  #goOnWith({ kept }: RebuiltLink): void {
    const { channel } = this.#session;
    if (kept === undefined || channel.goOnWith === undefined)
      throw new ProtocolError('bad_acceptance', 'ACCEPT rebuilds a link that this end did not ask for');
    channel.goOnWith(kept);
  }

  #handleGoAway(goAway: GoAwayPayload): void {
    const session = this.#session;
    const isAgreed = session.negotiated?.extensions[Extension.MOVE] !== undefined;
    const move = isAgreed ? goAway.move : undefined;
    if (!move) this.#drain(goAway);
    session.emit({ type: 'goaway', ...goAway, move });
  }

  #drain(goAway: GoAwayPayload | undefined): void {
    this.goAway = goAway;
    this.#session.channel.draining = goAway;
  }

  #handleReject(reject: RejectPayload): void {
    const { lifecycle, isEstablished, timers, options } = this.#session;
    const isAnswer = lifecycle === LifecycleState.HELLO_SENT || this.#isResuming;
    // In an established session the server refuses what the client has sent.
    if (!isAnswer && !isEstablished) {
      throw new ProtocolError('protocol_violation', 'REJECT must answer a HELLO or a message');
    }
    const isSuspended = lifecycle === LifecycleState.SUSPENDED;
    const { closingTimeoutMs } = options.timers;
    // The close code that follows says more, so the session waits for it, for a while.
    this.#rejected = reject;
    this.retryAfterMs = reject.retryAfterMs ?? 0;
    this.answerDue = isSuspended ? timers.now + closingTimeoutMs : Infinity;
    if (!isSuspended) timers.startState(closingTimeoutMs);
  }

  #handleAuth({ payload, timestamp }: AuthMessage): void {
    if ('token' in payload) {
      throw new ProtocolError('protocol_violation', 'AUTH with a token is for a client to send');
    }
    const { expiresAt } = payload;
    // Both are readings of the server's clock, which may differ from the client's.
    const expiresInMs = expiresAt === null ? Infinity : Math.max(0, expiresAt - timestamp);
    this.#session.emit({ type: 'granted', expiresInMs });
  }

  // --- commands

  announceReady(codecs: readonly LaterCodec[]): void {
    const stated = this.#session.options.capabilities.extensions[Extension.READY];
    const later = stated === undefined ? [] : laterCodecs(stated);
    const loaded = codecs.filter((codec) => later.includes(codec) && !this.#ready.has(codec));
    if (loaded.length === 0) return;
    for (const codec of loaded) this.#ready.add(codec);
    this.#sendReady();
  }

  #sendReady(): void {
    const { control, isEstablished, negotiated } = this.#session;
    const isAgreed = negotiated?.extensions[Extension.READY] !== undefined;
    if (!isAgreed || !isEstablished || this.#ready.size === 0) return;
    control.send({ type: 'READY', payload: { codecs: [...this.#ready] } });
  }

  authenticate(token: string): void {
    if (this.#session.isEstablished) this.#session.control.send({ type: 'AUTH', payload: { token } });
  }

  accept(): Negotiation {
    throw onlyFor('server');
  }

  checkResume(): ResumeRefusal {
    return ResumeRefusal.UNKNOWN_SESSION;
  }

  resume(): undefined {
    throw onlyFor('server');
  }

  grant(): void {
    throw onlyFor('server');
  }

  sendGoAway(): void {
    throw onlyFor('server');
  }
}

/** The error of a session that the server did not resume. */
function notResumed(answer: ResumeAnswer | undefined): ProtocolError {
  const reason = answer?.reason ?? ResumeRefusal.UNKNOWN_SESSION;
  return new ProtocolError('session_lost', `the server did not resume the session: ${reason}`, {
    side: 'remote',
  });
}

/** How long the answer to a HELLO may still take if its connection may be gone. */
const PROBE_ANSWER_MS = 10_000;

const NONE_AWAITED: ReadonlySet<LaterCodec> = new Set();
