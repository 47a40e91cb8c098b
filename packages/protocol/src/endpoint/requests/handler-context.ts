import { ProtocolError } from '../../base/errors.js';
import type { Fields } from '../../base/fields.js';
import type { CodedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import type { Session } from '../session.js';
import { type BatchOptions, type ResolvedBatchOptions, resolveBatchOptions } from './batch-options.js';
import type { Cancellation } from './cancellation.js';
import type { KeepOptions, KeptReply } from './keeping.js';
import type { Output, ReplySink } from './output.js';
import { messagesOf } from './yielded.js';

/** Passed to a request handler with the request. */
export interface RequestContext<Of extends Session = Session> {
  readonly session: Of;
  /**
   * Aborts when the requester cancels, its page is loaded again or the session ends, never because a connection was
   * lost.
   */
  readonly signal: AbortSignal;
  /**
   * Lets the handler finish although the session ends, or its page is loaded again, meanwhile, for work that must not
   * stop halfway. From then on only a cancel aborts {@link signal}, and parts that cannot be delivered are dropped. Call it
   * first: a signal that has aborted stays aborted.
   */
  runToCompletion(): void;
  /** The metadata of the request; empty if it has none. */
  readonly metadata: Metadata;
  /** How often the handler has been called, this call included: more than 1 only after {@link ifProcessDies} with `again`. */
  readonly attempt: number;
  /**
   * The parts that former calls of the handler have yielded and that are recorded, oldest first. The requester gets each
   * of them once, before the first part that this call yields.
   */
  readonly yielded: readonly Message[];
  /**
   * Server: whether another node calls the handler again if this one dies, with {@link attempt} and {@link yielded}. The
   * handler continues with what it yields then. Else its reply fails with `interrupted` after the parts that are recorded.
   * Has no effect in a session that is not recorded.
   *
   * @default 'fail'
   * @throws {ProtocolError} `invalid_argument` if it is neither of the two, or `fail` after `again`.
   */
  ifProcessDies(policy: 'fail' | 'again'): void;
  /**
   * Sends metadata before the next part, or with the whole reply. Call it before the first part, so that the
   * requester has the metadata when it reads that part.
   *
   * @throws {ProtocolError} `invalid_argument` if it is not an object; `metadata_too_large`.
   */
  setMetadata(metadata: Metadata): void;
  /**
   * Joins the parts that follow into batches; `undefined` sends each part by itself. Events of a reply by HTTP are never joined, as
   * each of them is a part, and nothing after `ifProcessDies('again')`, as `yielded` then has what the handler has yielded.
   *
   * @throws {ProtocolError} `invalid_option`.
   */
  setBatch(options: BatchOptions | undefined): void;
  /**
   * Server: keeps the reply, so that it can be followed from any part, now and after its end, and lets the handler go
   * on when the session ends, as {@link runToCompletion} does. From then on only the requester's cancel, a `stop()` of
   * its owner, and `abandonAfterMs` without a reader stop the handler. Call it before the first part; a second call
   * replaces the first. A handler that is called again ({@link attempt}) continues with the reply that was kept before: its
   * ID, its name and its parts stay.
   *
   * @returns `undefined` if a bound of the principal or the server leaves no room, or the record of an earlier attempt is lost.
   * That is logged, and the reply is sent without being kept. An engine may find no room later, and
   * then an ID was returned.
   * @throws {ProtocolError} `unsupported` at a client; `invalid_argument` after the first part; `invalid_option`.
   */
  keep(options?: KeepOptions): KeptReply | undefined;
}

/** The context as wrappers of a handler see it. */
export interface OwnContext extends RequestContext {
  /** Whether {@link signal} has aborted; asking for this does not make one. */
  readonly isCancelled: boolean;
  /** The metadata of the reply so far. */
  readonly replyMetadata: Metadata | undefined;
}

export interface HandlerContextOptions {
  readonly session: Session;
  readonly coder: BodyCoder;
  readonly metadata: Metadata;
  readonly cancellation: Cancellation;
  readonly output: Output;
  readonly sink: ReplySink;
  readonly batch: ResolvedBatchOptions | undefined;
  readonly attempt: number | undefined;
  readonly yielded: readonly CodedBody[] | undefined;
}

const NONE_YIELDED: readonly Message[] = [];

/**
 * The second argument of a handler, beside its request. Its members can be taken apart and copied one by one, so its
 * methods need no `this`, and {@link signal} is its own.
 */
export class HandlerContext implements OwnContext {
  readonly session: Session;
  declare readonly signal: AbortSignal;
  readonly metadata: Metadata;
  readonly attempt: number;
  readonly yielded: readonly Message[];
  readonly runToCompletion: () => void;
  readonly setMetadata: (metadata: Metadata) => void;
  readonly setBatch: (options: BatchOptions | undefined) => void;
  readonly keep: (options?: KeepOptions) => KeptReply | undefined;
  readonly ifProcessDies: (policy: 'fail' | 'again') => void;
  readonly #cancellation: Cancellation;
  #runsToCompletion = false;
  #batching: ResolvedBatchOptions | undefined;
  #isRepeated = false;
  #replyMetadata: Metadata | undefined;

  static signalOf(context: HandlerContext): AbortSignal {
    return context.#cancellation.signal;
  }

  constructor(options: HandlerContextOptions) {
    const { session, coder, metadata, cancellation, output, sink, batch, attempt = 1, yielded } = options;
    Object.defineProperty(this, 'signal', SIGNAL);
    this.session = session;
    this.metadata = metadata;
    this.attempt = attempt;
    this.yielded = yielded === undefined ? NONE_YIELDED : messagesOf(yielded, coder);
    this.#cancellation = cancellation;
    this.#batching = batch;
    this.runToCompletion = () => {
      this.#runsToCompletion = true;
      sink.runToCompletion();
    };
    this.setMetadata = (reply) => {
      output.setMetadata(reply);
      this.#replyMetadata = reply;
    };
    this.setBatch = (chosen) => {
      this.#batching = resolveBatchOptions(chosen);
    };
    this.keep = (chosen) => output.keep(chosen);
    this.ifProcessDies = (policy) => this.#repeat(policy, sink);
  }

  get isCancelled(): boolean {
    return this.#cancellation.isAborted;
  }

  get replyMetadata(): Metadata | undefined {
    return this.#replyMetadata;
  }

  get runsToCompletion(): boolean {
    return this.#runsToCompletion;
  }

  /**
   * How the parts that follow are joined. Each part of a reply by HTTP is an event, unless its head is known and says something else, and
   * a handler that is called again counts those that it has yielded.
   */
  get batching(): ResolvedBatchOptions | undefined {
    if (this.#isRepeated) return undefined;
    if (this.#batching === undefined || !Object.hasOwn(this.metadata, 'http')) return this.#batching;
    const http = this.#replyMetadata?.['http'] as { headers?: Fields } | undefined;
    const type = http?.headers?.['content-type'];
    // Not `isEventStream`, which is in a file that pages would load with this one.
    return typeof type === 'string' && !/^\s*text\/event-stream/i.test(type) ? this.#batching : undefined;
  }

  #repeat(policy: 'fail' | 'again', sink: ReplySink): void {
    if (policy === 'again') {
      this.#isRepeated = true;
      sink.repeat?.();
    } else if (policy !== 'fail') {
      throw new ProtocolError('invalid_argument', "ifProcessDies: expected 'fail' or 'again'");
    } else if (this.#isRepeated) {
      throw new ProtocolError('invalid_argument', "ifProcessDies: 'again' may be recorded already");
    }
  }
}

/** An accessor in an object literal takes ten times as long as this one. */
const SIGNAL: PropertyDescriptor & ThisType<HandlerContext> = {
  enumerable: true,
  configurable: true,
  get() {
    return HandlerContext.signalOf(this);
  },
};
