import {
  CloseCode,
  type HelloPayload,
  ProtocolError,
  type RejectPayload,
  type Subprotocol,
} from '@parlance/protocol';
import {
  closeReasonOf,
  guardLater,
  logCrash,
  loggable,
  readHello,
  rejectFrame,
  systemClock,
  type Traffic,
  toProtocolError,
  truncateReason,
  waitFrame,
  withCloseCode,
} from '@parlance/protocol/internal';
import { addressKey } from '../../transport/http/addresses.js';
import type { Refusal } from '../../transport/http/site.js';
import type { LoopQueue } from '../../transport/loop-queue.js';
import { type Transport, terminateSoon } from '../../transport/transport.js';
import type { SessionHost, Unanswered } from '../host.js';
import { Answering, type Waiting } from './answering.js';
import type { KnownPeer, ProxyTarget, Target } from './lookup.js';

/** The connection whose client is greeted. */
export interface Greeted {
  /** Its messages, whose time counts for the client once the client is known. */
  readonly queue: LoopQueue;
  /** `target` takes what arrives from now on. */
  handOver(target: Target | ProxyTarget): void;
}

/**
 * Milliseconds after which the server tells a client that the answer takes time. After 5 s of silence, the client takes
 * the server for something else.
 */
const WAIT_AFTER_MS = 2_000;
/** Bytes of frame headers and control frames around a HELLO of the largest size. */
const MAX_AROUND = 4 * 1024;

/**
 * Close codes of handshakes that fail by the client's fault. A connection that is closed because its address has too
 * many is not among them: others of that address may have opened them.
 */
const FAULTS: ReadonlySet<number> = new Set([CloseCode.BAD_FRAME, CloseCode.TOO_LARGE, CloseCode.TIMEOUT]);

/**
 * A connection without a session: reads HELLO, has it answered, and bounds the time and the bytes until then. It ends with a session
 * that has begun or is resumed, here or at another node, or with a refusal.
 */
export class Greeting implements Target, Waiting, Unanswered {
  readonly wire: Transport;
  readonly subprotocol: Subprotocol;
  readonly peer: KnownPeer;
  readonly #host: SessionHost;
  readonly #connection: Greeted;
  /** Bytes that may be received. */
  #budget: number;
  /** Clock reading by which HELLO has to come, or then its answer. */
  #deadline: number;
  helloAt: number | undefined;
  #hasSaidWait = false;
  #hasWarned = false;
  #answering: Answering | undefined;
  isOver = false;

  constructor(
    host: SessionHost,
    wire: Transport,
    subprotocol: Subprotocol,
    peer: KnownPeer,
    connection: Greeted,
  ) {
    this.#host = host;
    this.wire = wire;
    this.subprotocol = subprotocol;
    this.peer = peer;
    this.#connection = connection;
    const { limits, timers } = host.options;
    this.#budget = wire.traffic.received + limits.maxHandshakeSize + MAX_AROUND;
    this.#deadline = systemClock.now() + timers.helloTimeoutMs;
  }

  get queue(): LoopQueue {
    return this.#connection.queue;
  }

  // --- as the target of its connection

  /** Only a session reserves memory. Before ACCEPT, {@link handleRead} bounds a message. */
  get memory(): undefined {
    return undefined;
  }
  get longestMessage(): undefined {
    return undefined;
  }

  /** HELLO has come with the request that opened the connection. */
  spend(size: number): void {
    this.#budget -= size;
  }

  /** Bounds the total of what a client may send before ACCEPT, not only each message. */
  handleRead(): void {
    if (this.isOver || this.wire.traffic.received <= this.#budget) return;
    const message = `more than ${this.#host.options.limits.maxHandshakeSize} bytes before ACCEPT`;
    this.abort(new ProtocolError('message_too_large', message, { closeCode: CloseCode.TOO_LARGE }));
    // The WebSocket library keeps all that it reads of an unfinished message, so nothing more is read.
    this.wire.hold();
    terminateSoon(this.wire);
  }

  handleMessage(data: Uint8Array | string): void {
    if (this.isOver) return;
    try {
      const hello = readHello(data, this.#host.sessionOptions(this.subprotocol));
      if (hello === undefined) this.#warnOfUnknown();
      else this.#handleHello(hello, data);
    } catch (error) {
      this.abort(toProtocolError(error, 'internal', 'the session failed on a frame'), CloseCode.BAD_FRAME);
    }
  }

  #warnOfUnknown(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    this.#host.options.logger.warn({ event: 'session.warning' }, 'a message of unknown type was ignored');
  }

  #handleHello(hello: HelloPayload, data: Uint8Array | string): void {
    if (this.#answering !== undefined)
      throw new ProtocolError('protocol_violation', 'HELLO may be sent only once on a connection');
    const now = systemClock.now();
    this.helloAt = now;
    this.#deadline = now + this.#host.options.timers.acceptTimeoutMs;
    this.#host.onHello(this);
    this.#answering = new Answering(this.#host, this, hello, data);
    guardLater(this, this.#answering.run());
  }

  handleTick(): void {
    const now = systemClock.now();
    const { helloAt = Infinity } = this;
    if (now >= this.#deadline) this.abort(this.#timeout());
    else if (now >= helloAt + WAIT_AFTER_MS && !this.#hasSaidWait && this.peer.proxied === undefined) {
      this.#hasSaidWait = true;
      this.wire.send(waitFrame(this.subprotocol, Date.now()));
    }
  }

  #timeout(): ProtocolError {
    const { helloTimeoutMs, acceptTimeoutMs } = this.#host.options.timers;
    return this.helloAt === undefined
      ? new ProtocolError('timeout', `no HELLO within ${helloTimeoutMs} ms`)
      : new ProtocolError('timeout', `the server did not answer HELLO within ${acceptTimeoutMs} ms`);
  }

  handleWritable(): void {}

  handleDisconnected(): void {
    if (!this.isOver) this.#end(this.wire.traffic);
  }

  // --- the end

  /** The connection ends without an answer. @param closeCode for an error without one that may be sent. */
  abort(given: ProtocolError, closeCode: CloseCode = CloseCode.INTERNAL): void {
    if (this.isOver) return;
    const error = withCloseCode(given, closeCode);
    // An answer that takes too long is the server's fault.
    const isLate = this.helloAt !== undefined && error.code === 'timeout';
    if (this.peer.proxied === undefined && FAULTS.has(error.closeCode) && !isLate) this.countFailure();
    this.close(error.closeCode, closeReasonOf(error));
  }

  crash(error: unknown): void {
    logCrash(this.#host.options.logger, undefined, error);
    this.abort(new ProtocolError('internal', 'the session failed', { cause: error }));
  }

  refuse(refusal: Refusal): void {
    if (this.isOver) return;
    const { closeCode, message } = refusal;
    this.wire.send(rejectFrame(this.#report(refusal), closeCode, this.subprotocol, Date.now()));
    this.close(closeCode, truncateReason(message));
  }

  /** Reports the refusal to the operator. Returns the REJECT for the client. */
  #report(refusal: Refusal): RejectPayload {
    const { code, message, closeCode, retryAfterMs } = refusal;
    const { options, observer } = this.#host;
    const fields = { event: 'session.refused', ip: this.peer.ip, code, closeCode };
    // A page shows its user nothing of it, unless its author has thought of that.
    if (isNew(refusal, options)) {
      const err = loggable(new ProtocolError('forbidden', message, { closeCode }));
      options.logger.warn({ ...fields, err }, `refused, said once: ${message}`);
    } else options.logger.info(fields, `refused: ${message}`);
    observer?.handleRefused(refusal);
    return { code, message, retryAfterMs };
  }

  close(code: number, reason: string): void {
    this.isOver = true;
    this.wire.close(code, reason);
    this.#end(this.wire.traffic);
    // A client that has sent nothing gets no time for a closing handshake.
    if (this.helloAt === undefined) terminateSoon(this.wire);
  }

  handOver(target: Target | ProxyTarget, counted: string | undefined): void {
    this.#end(undefined);
    this.queue.assign(counted === undefined ? undefined : `principal ${counted}`);
    this.#connection.handOver(target);
  }

  #end(unserved: Traffic | undefined): void {
    this.isOver = true;
    this.#host.onGreeted(this, unserved);
    this.#answering?.stop();
  }

  countFailure(): void {
    this.#host.quotas.fail(addressKey(this.peer.ip), systemClock.now());
  }
}

/** The warnings that each server has logged: origins that are not listed, missing credentials. */
const told = new WeakMap<object, Set<string>>();
/** Warnings of one server. A peer can make up as many origins as it likes. */
const MAX_TOLD = 20;

/** Whether to warn of a refusal that the options of the server or of its pages cause, once. */
function isNew({ closeCode, message }: Refusal, server: object): boolean {
  if (closeCode !== CloseCode.FORBIDDEN && closeCode !== CloseCode.UNAUTHENTICATED) return false;
  const seen = told.get(server) ?? new Set();
  told.set(server, seen);
  if (seen.has(message) || seen.size >= MAX_TOLD) return false;
  seen.add(message);
  return true;
}
