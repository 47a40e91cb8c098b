import { decodeBareFrame, decodeTextForm, encodeBareFrame, encodeTextForm } from './bare.js';
import { CloseCode } from './close-codes.js';
import { algorithmOf } from './codec/algorithms.js';
import {
  type Algorithm,
  type EncodingName,
  Extension,
  NESTED_PROTOCOL_VERSION,
  PROTOCOL_VERSION,
  Subprotocol,
} from './constants.js';
import { ProtocolError, toProtocolError } from './errors.js';
import { AVP_FIRST_BYTE, FrameKind, frameKind, LINK_FIRST_BYTE } from './frame.js';
import { LifecycleEffect, LifecycleEvent, LifecycleState, stepLifecycle } from './lifecycle.js';
import { ANNOUNCED_LIMITS, type Limits, type Timers } from './limits.js';
import type { ReceivedBody } from './link/assembly.js';
import { LinkCodec } from './link/header.js';
import { type CodedBody, createLink, type Link, type LinkEvent } from './link/link.js';
import { createOutbox, type Outbox } from './link/outbox.js';
import { decodeControl, decodeControlJson, encodeControl, encodeControlJson } from './message-codec.js';
import {
  type AcceptPayload,
  type CapabilityShape,
  CloseReason,
  type ControlMessage,
  type HelloPayload,
  type RejectPayload,
  type StringMap,
  type UnknownMessage,
} from './messages.js';
import { type Capabilities, commonVersion, type Negotiation, negotiate } from './negotiate.js';

/**
 * The session core, without sockets or clocks: it takes frames and clock readings and returns
 * effects; a driver applies them. Call order of a driver:
 *
 *     handle*   something happened: connected, a message, the connection was lost, time has passed
 *     commands  accept, reject, send, request, …, close
 *     pollEvent     until `undefined`: what the application must know
 *     pollTransmit  until `undefined` or the socket is full: what goes to the peer
 *
 * No method throws because of a peer: what breaks the protocol ends the session, with a close code
 * and an `ended` event that holds the error.
 */

export interface SessionOptions {
  readonly role: 'client' | 'server';
  readonly subprotocol: Subprotocol;
  /** What this end offers (client) or supports (server). */
  readonly capabilities: Capabilities;
  readonly limits: Limits;
  readonly timers: Timers;
  /** Client only: stated in HELLO. */
  readonly agentId?: string | undefined;
  /** Client only: credentials for HELLO. */
  readonly token?: string | undefined;
  /** Client only: the shape of HELLO; a server answers in the client's. @default 'flat' */
  readonly shape?: CapabilityShape | undefined;
  /** Unix milliseconds at clock reading 0, for the timestamps of envelopes. @default 0 */
  readonly timeOrigin?: number | undefined;
}

/** The states that a user of a session sees. */
export type SessionState = 'connecting' | 'established' | 'suspended' | 'closing' | 'closed';

/** What the two ends agreed on; it never changes during a session. */
export interface Negotiated {
  readonly version: string;
  readonly algorithms: readonly Algorithm[];
  readonly encoding: EncodingName | null;
  readonly securityScanning: boolean;
  /** Largest message either end takes, in bytes; 0 is unstated. */
  readonly maxPayloadSize: number;
  /** What the client must respect, by limit name; what is absent is unlimited. */
  readonly limits: Readonly<Record<string, number>>;
  /** Agreed extensions and their parameters. */
  readonly extensions: StringMap;
  /** Why it came out like this, a sentence per decision; known to the server only. */
  readonly reasons: readonly string[];
}

export type SessionEvent =
  | LinkEvent
  /** Server: answer with `accept` or `reject`, at once or later. */
  | { readonly type: 'hello'; readonly hello: HelloPayload }
  | { readonly type: 'state'; readonly state: SessionState }
  | { readonly type: 'warning'; readonly message: string }
  /** Close the connection with this code once everything before it was transmitted. */
  | { readonly type: 'disconnect'; readonly closeCode: number; readonly reason: string }
  /** The last event of a session; without an error it ended as agreed. */
  | { readonly type: 'ended'; readonly error: ProtocolError | undefined };

export interface SessionCore {
  readonly state: SessionState;
  /** The state of the lifecycle machine behind {@link state}. */
  readonly lifecycle: LifecycleState;
  /** `undefined` before ACCEPT. */
  readonly id: string | undefined;
  readonly negotiated: Negotiated | undefined;
  readonly subprotocol: Subprotocol;
  /** Whether streams, requests and fragments are available. */
  readonly hasLink: boolean;
  /** Bytes of bodies that wait to be written. */
  readonly queuedBytes: number;
  /** Streams that are open in either direction. */
  readonly openStreams: number;
  /** Counted frames that were written and whose arrival the peer has not confirmed. */
  readonly framesUnconfirmed: number;
  /** Milliseconds between the last PING and its PONG. */
  readonly roundTripMs: number | undefined;

  handleConnected(now: number): void;
  handleMessage(data: Uint8Array | string, now: number): void;
  /** The connection is gone. `closeCode` is what the peer closed with. */
  handleDisconnected(closeCode: number, reason: string, now: number): void;
  /** Call at or after {@link nextTimeout}; calling early or often is harmless. */
  handleTimeout(now: number): void;
  /** The earliest clock reading at which something is due, `Infinity` where nothing is. */
  nextTimeout(): number;

  /** Server: admits the client as `sessionId`, or rejects it where nothing is in common. */
  accept(sessionId: string, now: number, agentId?: string): Negotiation;
  /** Server: refuses the client. Also before its HELLO has arrived. */
  reject(reject: RejectPayload, closeCode: CloseCode, now: number): void;

  /** @throws {ProtocolError} `session_closed`, `unsupported`, `message_too_large`. */
  send(body: CodedBody): void;
  /** @throws {ProtocolError} as `send`, and `too_many_streams`. */
  request(body: CodedBody): number;
  respond(streamId: number, body: CodedBody): void;
  chunk(streamId: number, body: CodedBody): void;
  end(streamId: number): void;
  fail(streamId: number, error: unknown): void;
  cancel(streamId: number): void;
  /** Whether the far end of `streamId` still wants what would be sent. */
  isWanted(streamId: number): boolean;

  close(reason: CloseReason, message: string, now: number): void;
  /** Ends the session at once, as if the peer had broken the protocol. */
  abort(error: ProtocolError, now: number): void;

  pollTransmit(): Uint8Array | string | undefined;
  pollEvent(): SessionEvent | undefined;
}

/** Missed PONGs in a row after which a connection counts as lost. */
const MAX_MISSED_PONGS = 3;
/** Bytes that a WebSocket close frame leaves for its reason (RFC 6455, section 5.5). */
const MAX_REASON_BYTES = 123;

export function createSession(options: SessionOptions): SessionCore {
  return new Core(options);
}

const PUBLIC_STATE: Readonly<Record<LifecycleState, SessionState>> = {
  initial: 'connecting',
  helloSent: 'connecting',
  awaitingHello: 'connecting',
  established: 'established',
  suspended: 'suspended',
  closing: 'closing',
  closed: 'closed',
  failed: 'closed',
};

class Core implements SessionCore {
  readonly subprotocol: Subprotocol;
  readonly #options: SessionOptions;
  readonly #outbox: Outbox = createOutbox();
  readonly #events: SessionEvent[] = [];
  #nextEvent = 0;

  #lifecycle: LifecycleState = LifecycleState.INITIAL;
  /** Mirrors `#lifecycle === established`: all that the data path asks. */
  #isEstablished = false;
  #isConnected = false;
  #id: string | undefined;
  #negotiated: Negotiated | undefined;
  #link: Link | undefined;
  /** Largest body this end may send, in bytes after decoding. */
  #maxSend = 0;

  /** Server: the HELLO that waits for its answer. */
  #hello: HelloPayload | undefined;
  /** Client: the offer made, to hold the ACCEPT against. */
  #offer: HelloPayload | undefined;
  #rejected: ProtocolError | undefined;
  #failure: ProtocolError | undefined;
  #closeReason: CloseReason = CloseReason.NORMAL;
  #closeMessage = '';
  #sentClose = false;
  #receivedClose = false;
  #hasEnded = false;

  /** Clock reading at which the present state times out. */
  #stateDeadline = Infinity;
  #lastReceived = 0;
  #lastData = 0;
  #pingSentAt = 0;
  #pongDue = Infinity;
  #missedPongs = 0;
  roundTripMs: number | undefined;
  /** The last clock reading, for what the application does between two of them. */
  #now = 0;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.subprotocol = options.subprotocol;
  }

  get state(): SessionState {
    return PUBLIC_STATE[this.#lifecycle];
  }
  get lifecycle(): LifecycleState {
    return this.#lifecycle;
  }
  get id(): string | undefined {
    return this.#id;
  }
  get negotiated(): Negotiated | undefined {
    return this.#negotiated;
  }
  get hasLink(): boolean {
    return this.#link !== undefined;
  }
  get queuedBytes(): number {
    return this.#outbox.queuedBytes;
  }
  get openStreams(): number {
    return this.#link?.openStreams ?? 0;
  }
  get framesUnconfirmed(): number {
    return this.#link?.framesUnconfirmed ?? 0;
  }

  // --- what happens

  handleConnected(now: number): void {
    this.#tick(now);
    this.#isConnected = true;
    this.#lastReceived = now;
    this.#apply(LifecycleEvent.OPEN);
  }

  handleMessage(data: Uint8Array | string, now: number): void {
    this.#tick(now);
    this.#lastReceived = now;
    this.#missedPongs = 0;
    if (this.#hasEnded || this.#rejected !== undefined) return;
    try {
      if (
        this.#link !== undefined &&
        typeof data !== 'string' &&
        (data[0] ?? 0) >> 4 === LINK_FIRST_BYTE >> 4
      ) {
        this.#handleLinkFrame(this.#link, data);
      } else {
        this.#handleOther(data);
      }
    } catch (error) {
      this.#violate(toProtocolError(error, 'internal', 'the session failed on a frame'));
    }
  }

  handleDisconnected(closeCode: number, reason: string, now: number): void {
    this.#tick(now);
    // In the initial state it is a connection that never came about.
    if (!this.#isConnected && this.#lifecycle !== LifecycleState.INITIAL) return;
    this.#isConnected = false;
    if (this.#hasEnded) return;
    const rejected = this.#rejected;
    if (rejected !== undefined) {
      const { message, reject } = rejected;
      this.#failure = new ProtocolError('rejected', message, {
        side: 'remote',
        reject,
        closeCode,
        retryable: closeCode === CloseCode.RATE_LIMITED || closeCode === CloseCode.DRAINING,
      });
    } else if (this.#lifecycle !== LifecycleState.CLOSING || !this.#receivedClose) {
      this.#failure ??= disconnectError(closeCode, reason, this.#lifecycle);
    }
    this.#apply(rejected === undefined ? LifecycleEvent.LOST : LifecycleEvent.REJECT);
  }

  handleTimeout(now: number): void {
    this.#tick(now);
    if (this.#hasEnded) return;
    if (now >= this.#stateDeadline) {
      this.#stateDeadline = Infinity;
      this.#handleStateTimeout();
      return;
    }
    if (!this.#isEstablished) return;
    const { timers, role } = this.#options;
    if (role === 'server' && this.openStreams === 0 && now - this.#lastData >= timers.sessionTimeoutMs) {
      this.#closeReason = CloseReason.TIMEOUT;
      this.#closeMessage = `no data for ${timers.sessionTimeoutMs} ms`;
      this.#apply(LifecycleEvent.TIMEOUT);
      return;
    }
    this.#checkLiveness(now);
  }

  nextTimeout(): number {
    if (this.#hasEnded) return Infinity;
    if (!this.#isEstablished) return this.#stateDeadline;
    const { timers, role } = this.#options;
    const idle =
      role === 'server' && this.openStreams === 0 ? this.#lastData + timers.sessionTimeoutMs : Infinity;
    const liveness = this.#pongDue === Infinity ? this.#lastReceived + timers.pingIntervalMs : this.#pongDue;
    return Math.min(this.#stateDeadline, idle, liveness);
  }

  // --- commands

  accept(sessionId: string, now: number, agentId?: string): Negotiation {
    this.#tick(now);
    const hello = this.#hello;
    if (hello === undefined) throw new ProtocolError('invalid_argument', 'no HELLO waits for an answer');
    const { capabilities, limits, timers } = this.#options;
    const outcome = negotiate(hello, capabilities);
    if (!outcome.accepted) {
      this.reject(outcome.reject, CloseCode.BAD_FRAME, now);
      return outcome;
    }
    this.#hello = undefined;
    this.#id = sessionId;
    const { agreement } = outcome;
    // Link frames are binary; JSON envelopes have no place for them.
    const names = agreement.extensions.filter((name) => name !== Extension.LINK || this.#isBinary);
    const extensions = pick(capabilities.extensions, names);
    const stated = pickFinite(limits);
    this.#agree({ ...agreement, limits: stated, extensions }, linkOffer(hello.extensions));
    this.#sendControl({
      type: 'ACCEPT',
      sessionId,
      timestamp: this.#timestamp(),
      payload: {
        shape: hello.shape,
        version: agreement.version,
        algorithms: agreement.algorithms,
        encoding: agreement.encoding,
        encodings: agreement.encoding === null ? [] : [agreement.encoding],
        securityScanning: agreement.securityScanning,
        sessionTimeoutMs: Number.isFinite(timers.sessionTimeoutMs) ? timers.sessionTimeoutMs : 0,
        maxPayloadSize: agreement.maxPayloadSize,
        limits: stated,
        agentId,
        extensions,
      },
    });
    this.#apply(LifecycleEvent.ACCEPT);
    return outcome;
  }

  reject(reject: RejectPayload, closeCode: CloseCode, now: number): void {
    this.#tick(now);
    if (this.#hasEnded) return;
    this.#hello = undefined;
    this.#sendControl({ type: 'REJECT', sessionId: null, timestamp: this.#timestamp(), payload: reject });
    this.#failure = new ProtocolError('rejected', reject.message, { reject, closeCode });
    this.#apply(LifecycleEvent.REJECT);
  }

  send(body: CodedBody): void {
    this.#assertSendable(body);
    if (this.#link !== undefined) this.#link.send(body);
    else this.#sendBare(body);
  }

  request(body: CodedBody): number {
    this.#assertSendable(body);
    if (this.#link === undefined) {
      throw new ProtocolError(
        'unsupported',
        'requests and streams need the link extension, which was not negotiated',
      );
    }
    return this.#link.request(body);
  }

  respond(streamId: number, body: CodedBody): void {
    if (!this.#canReply(streamId)) return this.#link?.end(streamId);
    this.#assertSize(body);
    this.#link?.respond(streamId, body);
  }

  chunk(streamId: number, body: CodedBody): void {
    if (!this.#canReply(streamId)) return;
    this.#assertSize(body);
    this.#link?.chunk(streamId, body);
  }

  end(streamId: number): void {
    this.#lastData = this.#now;
    this.#link?.end(streamId);
  }

  fail(streamId: number, error: unknown): void {
    this.#lastData = this.#now;
    this.#link?.fail(streamId, error);
  }

  cancel(streamId: number): void {
    if (this.#isEstablished && this.#link?.cancel(streamId)) this.#emit({ type: 'end', streamId });
  }

  isWanted(streamId: number): boolean {
    return !this.#hasEnded && (this.#link?.isWanted(streamId) ?? false);
  }

  close(reason: CloseReason, message: string, now: number): void {
    this.#tick(now);
    if (this.#hasEnded) return;
    if (!this.#isEstablished)
      this.#failure ??= new ProtocolError('session_closed', 'closed before it was established');
    this.#closeReason = reason;
    this.#closeMessage = message;
    this.#apply(LifecycleEvent.CLOSE);
  }

  abort(error: ProtocolError, now: number): void {
    this.#tick(now);
    this.#violate(error);
  }

  // --- effects

  pollTransmit(): Uint8Array | string | undefined {
    const frame = this.#outbox.next();
    if (frame === undefined && this.#lifecycle === LifecycleState.CLOSING) return this.#nextClosingFrame();
    return frame;
  }

  pollEvent(): SessionEvent | undefined {
    if (this.#nextEvent === this.#events.length) {
      if (this.#nextEvent > 0) {
        this.#events.length = 0;
        this.#nextEvent = 0;
      }
      return undefined;
    }
    return this.#events[this.#nextEvent++];
  }

  // --- data

  get #isBinary(): boolean {
    return this.subprotocol === Subprotocol.BINARY;
  }

  #handleLinkFrame(link: Link, data: Uint8Array): void {
    // While closing, what still arrives is taken until the peer's CLOSE.
    if (this.#receivedClose) throw new ProtocolError('protocol_violation', 'a frame after CLOSE');
    const event = link.handleFrame(data);
    this.#lastData = this.#now;
    if (event === undefined) return;
    if ('body' in event) this.#assertNegotiated(event.body);
    this.#emit(event);
  }

  #handleBareData(body: ReceivedBody): void {
    if (this.#link !== undefined)
      throw new ProtocolError('bad_frame', 'a bare data frame where link was negotiated');
    if (!this.#isEstablished && this.#lifecycle !== LifecycleState.CLOSING) {
      throw new ProtocolError('protocol_violation', 'data before ACCEPT');
    }
    if (this.#receivedClose) throw new ProtocolError('protocol_violation', 'a frame after CLOSE');
    this.#assertNegotiated(body);
    this.#lastData = this.#now;
    this.#emit({ type: 'message', body });
  }

  #handleOther(data: Uint8Array | string): void {
    const { limits } = this.#options;
    // A UTF-16 unit is at least one byte of UTF-8, so text is never let through that should not be;
    // tensors have a limit of their own.
    const isTensor = typeof data !== 'string' && data[0] === AVP_FIRST_BYTE;
    const established = isTensor ? limits.maxTransferSize : limits.maxMessageSize;
    const max = this.#negotiated === undefined ? limits.maxHandshakeSize : established;
    if (data.length > max) {
      throw new ProtocolError(
        'message_too_large',
        `a message of ${data.length} bytes, at most ${max} are taken here`,
      );
    }
    if (typeof data === 'string') {
      if (!this.#isBinary) this.#handleControl(decodeControlJson(data, limits));
      else this.#handleBareData(decodeTextForm(data, this.#negotiated?.encoding ?? null));
      return;
    }
    if (!this.#isBinary)
      throw new ProtocolError('bad_frame', `${Subprotocol.JSON} carries text messages only`);
    switch (frameKind(data)) {
      case FrameKind.CONTROL:
        return this.#handleControl(decodeControl(data, limits));
      case FrameKind.LINK:
        throw new ProtocolError('bad_frame', 'a link frame where link was not negotiated');
      default:
        return this.#handleBareData(decodeBareFrame(data, this.#negotiated?.encoding ?? null));
    }
  }

  #sendBare(body: CodedBody): void {
    const encoding = this.#negotiated?.encoding ?? null;
    if (this.#isBinary) {
      this.#outbox.pushControl(encodeBareFrame(body, encoding));
      return;
    }
    const algorithm = algorithmOf(body.codec);
    if (algorithm === undefined) {
      throw new ProtocolError('unsupported', `${Subprotocol.JSON} carries text only, no tensors`);
    }
    this.#sendControl({
      type: 'DATA',
      sessionId: this.#id ?? null,
      timestamp: this.#timestamp(),
      payload: { algorithm, content: encodeTextForm(body, encoding), originalSize: body.originalLength },
    });
  }

  /** AVP is no negotiated algorithm, and nothing at all is not coded as anything. */
  #assertNegotiated({ codec, bytes }: ReceivedBody): void {
    if (codec === LinkCodec.PLAIN && bytes.length === 0) return;
    const algorithm = algorithmOf(codec);
    if (algorithm === undefined ? codec === LinkCodec.AVP : this.#negotiated?.algorithms.includes(algorithm))
      return;
    throw new ProtocolError(
      'bad_frame',
      `a body coded as ${algorithm ?? `codec ${codec}`}, which was not negotiated`,
    );
  }

  #assertSendable(body: CodedBody): void {
    if (!this.#isEstablished) {
      throw new ProtocolError('session_closed', `the session is ${this.state}; nothing can be sent`);
    }
    this.#assertSize(body);
    this.#lastData = this.#now;
  }

  #assertSize(body: CodedBody): void {
    const transfer = body.codec === LinkCodec.AVP;
    const max = transfer ? (this.#negotiated?.limits['maxTransferSize'] ?? Infinity) : this.#maxSend;
    const size = Math.max(body.originalLength, body.bytes.length);
    if (size > max) {
      throw new ProtocolError(
        transfer ? 'transfer_too_large' : 'message_too_large',
        `${size} bytes are more than the ${max} that the peer takes`,
      );
    }
  }

  #canReply(streamId: number): boolean {
    this.#lastData = this.#now;
    return this.#isEstablished && this.isWanted(streamId);
  }

  // --- control

  #handleControl(message: ControlMessage | UnknownMessage): void {
    const { role } = this.#options;
    if (message.type === 'UNKNOWN') {
      this.#emit({
        type: 'warning',
        message: `message of unknown type ${JSON.stringify(message.name)} ignored`,
      });
      return;
    }
    if (
      this.#id !== undefined &&
      message.sessionId !== null &&
      message.sessionId !== this.#id &&
      message.type !== 'REJECT'
    ) {
      throw new ProtocolError('bad_message', `${message.type} names another session`);
    }
    switch (message.type) {
      case 'HELLO':
        if (
          role !== 'server' ||
          this.#lifecycle !== LifecycleState.AWAITING_HELLO ||
          this.#hello !== undefined
        ) {
          throw new ProtocolError('protocol_violation', 'HELLO out of place: it is said once, by the client');
        }
        this.#hello = message.payload;
        this.#stateDeadline = this.#now + this.#options.timers.acceptTimeoutMs;
        this.#emit({ type: 'hello', hello: message.payload });
        return;
      case 'ACCEPT':
        return this.#handleAccept(message.sessionId as string, message.payload);
      case 'REJECT':
        if (role !== 'client' || this.#lifecycle !== LifecycleState.HELLO_SENT) {
          throw new ProtocolError('protocol_violation', 'REJECT out of place');
        }
        // The close code that follows says more, so the end of the session waits for it.
        this.#rejected = new ProtocolError('rejected', message.payload.message, {
          side: 'remote',
          reject: message.payload,
        });
        this.#stateDeadline = this.#now + this.#options.timers.closingTimeoutMs;
        return;
      case 'DATA': {
        if (this.#isBinary)
          throw new ProtocolError('protocol_violation', `DATA envelopes belong to ${Subprotocol.JSON}`);
        const { content } = message.payload;
        if (typeof content !== 'string') throw new ProtocolError('bad_message', 'content must be a string');
        this.#handleBareData(decodeTextForm(content, this.#negotiated?.encoding ?? null));
        return;
      }
      case 'PING':
        this.#assertAccepted('PING');
        this.#sendControl({
          type: 'PONG',
          sessionId: this.#id ?? null,
          timestamp: this.#timestamp(),
          payload: {},
        });
        return;
      case 'PONG':
        this.#assertAccepted('PONG');
        if (this.#pongDue !== Infinity) this.roundTripMs = this.#now - this.#pingSentAt;
        this.#pongDue = Infinity;
        return;
      case 'CLOSE':
        this.#assertAccepted('CLOSE');
        if (this.#receivedClose) throw new ProtocolError('protocol_violation', 'CLOSE was said already');
        this.#receivedClose = true;
        if (message.payload.reason === CloseReason.TIMEOUT) {
          this.#failure ??= new ProtocolError(
            'timeout',
            `the peer closed: ${message.payload.message || 'idle'}`,
            { side: 'remote' },
          );
        }
        this.#apply(LifecycleEvent.PEER_CLOSE);
        return;
    }
  }

  #assertAccepted(type: string): void {
    if (this.#negotiated === undefined)
      throw new ProtocolError('protocol_violation', `${type} before ACCEPT`);
  }

  #handleAccept(sessionId: string, accept: AcceptPayload): void {
    const offer = this.#offer;
    if (offer === undefined || this.#lifecycle !== LifecycleState.HELLO_SENT) {
      throw new ProtocolError('protocol_violation', 'ACCEPT out of place');
    }
    this.#id = sessionId;
    this.#agree(agreementOf(offer, accept), linkOffer(accept.extensions));
    this.#apply(LifecycleEvent.ACCEPT);
  }

  /** Pins what was agreed and puts the link in place. */
  #agree(negotiated: Negotiated, peerLink: LinkParameters | undefined): void {
    const { role, limits } = this.#options;
    this.#negotiated = Object.freeze({ ...negotiated, extensions: Object.freeze(negotiated.extensions) });
    const stated = [
      negotiated.maxPayloadSize || Infinity,
      (role === 'client' ? negotiated.limits['maxMessageSize'] : undefined) ?? Infinity,
      limits.maxMessageSize,
    ];
    this.#maxSend = Math.min(...stated);
    if (negotiated.extensions[Extension.LINK] !== undefined) {
      this.#link = createLink({
        side: role,
        limits,
        peerMaxStreams:
          (role === 'client' ? negotiated.limits['maxStreams'] : peerLink?.maxStreams) ?? limits.maxStreams,
        outbox: this.#outbox,
      });
    }
  }

  #sendControl(message: ControlMessage): void {
    this.#outbox.pushControl(this.#isBinary ? encodeControl(message) : encodeControlJson(message));
  }

  #timestamp(): number {
    return Math.max(0, Math.round((this.#options.timeOrigin ?? 0) + this.#now));
  }

  // --- time

  #tick(now: number): void {
    if (now > this.#now) this.#now = now;
  }

  #handleStateTimeout(): void {
    const { timers } = this.#options;
    switch (this.#lifecycle) {
      case LifecycleState.AWAITING_HELLO:
        this.#failure = new ProtocolError(
          'timeout',
          this.#hello === undefined
            ? `no HELLO within ${timers.helloTimeoutMs} ms`
            : `HELLO was not decided upon within ${timers.acceptTimeoutMs} ms`,
        );
        break;
      case LifecycleState.HELLO_SENT:
        if (this.#rejected !== undefined) {
          this.#emit({ type: 'disconnect', closeCode: CloseCode.NORMAL, reason: '' });
          this.handleDisconnected(CloseCode.ABNORMAL, '', this.#now);
          return;
        }
        this.#failure = new ProtocolError(
          'timeout',
          `HELLO was not answered within ${timers.acceptTimeoutMs} ms`,
        );
        break;
      case LifecycleState.CLOSING:
        this.#failure ??= new ProtocolError(
          'timeout',
          `the peer did not close within ${timers.closingTimeoutMs} ms`,
        );
        break;
    }
    this.#apply(LifecycleEvent.TIMEOUT);
  }

  #checkLiveness(now: number): void {
    const { timers } = this.#options;
    if (this.#pongDue === Infinity) {
      if (now - this.#lastReceived >= timers.pingIntervalMs) this.#ping(now);
      return;
    }
    if (now < this.#pongDue) return;
    // Anything received since the PING shows that the peer lives, its PONG may come later.
    if (this.#lastReceived > this.#pingSentAt) {
      this.#pongDue = Infinity;
      return;
    }
    this.#missedPongs++;
    if (this.#missedPongs < MAX_MISSED_PONGS) {
      this.#ping(now);
      return;
    }
    this.#emit({
      type: 'disconnect',
      closeCode: CloseCode.TIMEOUT,
      reason: `${MAX_MISSED_PONGS} PINGs went unanswered`,
    });
    this.handleDisconnected(CloseCode.TIMEOUT, 'the peer does not answer', now);
  }

  #ping(now: number): void {
    this.#pingSentAt = now;
    this.#pongDue = now + this.#options.timers.pongTimeoutMs;
    this.#sendControl({
      type: 'PING',
      sessionId: this.#id ?? null,
      timestamp: this.#timestamp(),
      payload: {},
    });
  }

  // --- lifecycle

  #apply(event: LifecycleEvent): void {
    const resumable = false;
    const before = this.state;
    const { state, effects } = stepLifecycle(this.#lifecycle, event, { role: this.#options.role, resumable });
    this.#lifecycle = state;
    this.#isEstablished = state === LifecycleState.ESTABLISHED;
    if (this.state !== before) this.#emit({ type: 'state', state: this.state });
    for (const effect of effects) this.#perform(effect);
  }

  #perform(effect: LifecycleEffect): void {
    const { timers, capabilities, agentId, token, shape = 'flat' } = this.#options;
    switch (effect) {
      case LifecycleEffect.AWAIT_HELLO:
        this.#stateDeadline = this.#now + timers.helloTimeoutMs;
        return;
      case LifecycleEffect.AWAIT_ACCEPT:
        this.#stateDeadline = this.#now + timers.acceptTimeoutMs;
        this.#offer = {
          shape,
          version: shape === 'flat' ? PROTOCOL_VERSION : NESTED_PROTOCOL_VERSION,
          algorithms: capabilities.algorithms,
          encodings: capabilities.encodings,
          preferredEncoding: capabilities.encodings[0] ?? null,
          securityScanning: capabilities.securityScanning,
          maxPayloadSize: capabilities.maxPayloadSize,
          supportsStreaming: true,
          agentId,
          extensions: capabilities.extensions,
          auth: token === undefined ? undefined : { token },
        };
        this.#sendControl({
          type: 'HELLO',
          sessionId: null,
          timestamp: this.#timestamp(),
          payload: this.#offer,
        });
        return;
      case LifecycleEffect.ESTABLISH:
        this.#stateDeadline = Infinity;
        this.#lastData = this.#now;
        return;
      case LifecycleEffect.SUSPEND:
        return;
      case LifecycleEffect.BEGIN_CLOSING:
        this.#stateDeadline = this.#now + timers.closingTimeoutMs;
        return;
      case LifecycleEffect.END:
        // Without a connection there is nobody left to wait for.
        if (this.#failure?.reject !== undefined && this.#failure.side === 'local') {
          this.#emit({
            type: 'disconnect',
            closeCode: this.#failure.closeCode,
            reason: this.#failure.message,
          });
        } else if (this.#isConnected) {
          this.#emit({ type: 'disconnect', closeCode: CloseCode.NORMAL, reason: this.#closeReason });
        }
        this.#finish();
        return;
      case LifecycleEffect.FAIL: {
        this.#outbox.clear();
        const error = this.#failure ?? new ProtocolError('internal', 'the session failed');
        this.#emit({ type: 'disconnect', closeCode: error.closeCode, reason: closeReasonOf(error) });
        this.#finish();
        return;
      }
    }
  }

  #violate(error: ProtocolError): void {
    if (this.#hasEnded) return;
    this.#failure = error;
    this.#apply(LifecycleEvent.VIOLATION);
  }

  /** Once everything else is out, CLOSE is said; once both have said it, the session is over. */
  #nextClosingFrame(): Uint8Array | string | undefined {
    if (!this.#sentClose) {
      this.#sentClose = true;
      this.#sendControl({
        type: 'CLOSE',
        sessionId: this.#id ?? null,
        timestamp: this.#timestamp(),
        payload: { reason: this.#closeReason, message: this.#closeMessage },
      });
      return this.#outbox.next();
    }
    if (this.#receivedClose) this.#apply(LifecycleEvent.CLOSE_DONE);
    return undefined;
  }

  #finish(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#stateDeadline = Infinity;
    this.#emit({ type: 'ended', error: this.#failure });
  }

  #emit(event: SessionEvent): void {
    this.#events.push(event);
  }
}

interface LinkParameters {
  readonly maxStreams: number | undefined;
}

/** The parameters of a stated `link` extension; a peer of a later version may state more. */
function linkOffer(extensions: StringMap): LinkParameters | undefined {
  const stated = extensions[Extension.LINK];
  if (stated === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(stated);
    const maxStreams =
      typeof value === 'object' && value !== null
        ? (value as { max_streams?: unknown }).max_streams
        : undefined;
    return {
      maxStreams:
        Number.isSafeInteger(maxStreams) && (maxStreams as number) > 0 ? (maxStreams as number) : undefined,
    };
  } catch (cause) {
    throw new ProtocolError('bad_message', 'extension link is stated as a JSON object', { cause });
  }
}

/**
 * What an ACCEPT means for the client that made `offer`. A flat ACCEPT states an agreement and must
 * not go beyond the offer; a nested one states the server's own capabilities.
 */
function agreementOf(offer: HelloPayload, accept: AcceptPayload): Negotiated {
  const nested = accept.shape === 'nested';
  const refuse = (what: string) => new ProtocolError('bad_acceptance', `ACCEPT ${what}`);
  if (commonVersion(accept.version) === undefined)
    throw refuse(`states version ${JSON.stringify(accept.version)}`);

  const offered = (name: Algorithm) => offer.algorithms.includes(name);
  if (!nested && !accept.algorithms.every(offered)) throw refuse('names an algorithm that was not offered');
  const algorithms = offer.algorithms.filter((name) => accept.algorithms.includes(name));
  if (algorithms.length === 0) throw refuse('agrees on no algorithm');

  let { encoding } = accept;
  if (nested && (encoding === null || !offer.encodings.includes(encoding))) {
    encoding = offer.encodings.find((name) => accept.encodings.includes(name)) ?? null;
  }
  if (encoding !== null && !offer.encodings.includes(encoding))
    throw refuse('chooses an encoding that was not offered');
  const usable = encoding === null ? algorithms.filter((name) => name !== 'TOKEN_NATIVE') : algorithms;
  if (usable.length === 0) throw refuse('agrees on TOKEN_NATIVE without an encoding');

  const names = Object.keys(accept.extensions);
  if (!nested && !names.every((name) => Object.hasOwn(offer.extensions, name))) {
    throw refuse('switches on an extension that was not offered');
  }
  if (offer.maxPayloadSize > 0 && !nested && accept.maxPayloadSize > offer.maxPayloadSize) {
    throw refuse('states a larger payload than was offered');
  }
  return {
    version: accept.version,
    algorithms: usable,
    encoding,
    securityScanning: accept.securityScanning && offer.securityScanning,
    maxPayloadSize: accept.maxPayloadSize || offer.maxPayloadSize,
    limits: accept.limits,
    extensions: pick(
      accept.extensions,
      names.filter((name) => Object.hasOwn(offer.extensions, name)),
    ),
    reasons: [],
  };
}

function pick(source: StringMap, names: readonly string[]): StringMap {
  const picked: Record<string, string> = Object.create(null);
  for (const name of names) picked[name] = source[name] as string;
  return picked;
}

function pickFinite(limits: Limits): Record<string, number> {
  const picked: Record<string, number> = {};
  for (const name of ANNOUNCED_LIMITS) if (Number.isFinite(limits[name])) picked[name] = limits[name];
  return picked;
}

/** The error behind a connection that ended while the session still lived. */
function disconnectError(closeCode: number, reason: string, state: LifecycleState): ProtocolError {
  const told = `the connection closed with code ${closeCode}${reason === '' ? '' : `: ${reason}`}`;
  const options = { side: 'remote', closeCode } as const;
  switch (closeCode) {
    case CloseCode.UNAUTHENTICATED:
      return new ProtocolError('unauthenticated', told, options);
    case CloseCode.FORBIDDEN:
      return new ProtocolError('forbidden', told, options);
    case CloseCode.TIMEOUT:
      return new ProtocolError('timeout', told, options);
    case CloseCode.BAD_FRAME:
      return new ProtocolError('protocol_violation', told, options);
    case CloseCode.TOO_LARGE:
      return new ProtocolError('message_too_large', told, options);
    case CloseCode.RATE_LIMITED:
      return new ProtocolError('rate_limited', told, options);
    case CloseCode.INTERNAL:
      return new ProtocolError('internal', told, options);
    case CloseCode.DRAINING:
      return new ProtocolError('draining', told, options);
    default: {
      const connecting = PUBLIC_STATE[state] === 'connecting';
      return new ProtocolError(connecting ? 'connection_failed' : 'session_lost', told, options);
    }
  }
}

/** The reason of a close frame: the code, then as much of the message as 123 bytes hold. */
export function closeReasonOf(error: ProtocolError): string {
  return truncateUtf8(`${error.code}: ${error.message}`, MAX_REASON_BYTES);
}

/** Cuts `text` to at most `maxBytes` of UTF-8, never inside a character. */
export function truncateUtf8(text: string, maxBytes: number): string {
  let bytes = 0;
  let cut = '';
  for (const character of text) {
    const point = character.codePointAt(0) as number;
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (bytes > maxBytes) break;
    cut += character;
  }
  return cut;
}
