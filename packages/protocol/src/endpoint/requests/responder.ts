import { isProtocolError, ProtocolError, RequestError } from '../../base/errors.js';
import { get, isFields } from '../../base/fields.js';
import type { CodedBody } from '../../codec/body.js';
import type { Clock } from '../../platform/clock.js';
import type { SessionCore } from '../../session/types.js';
import type { Pulls } from '../http/pulls.js';
import { loggable } from '../loggable.js';
import { type BlobBody, isBlob } from '../messages/blob.js';
import { CodedPart, encodePart } from '../messages/encode-part.js';
import type { Message, ReceivedMessage } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import { isAsyncIterable, type Part } from '../messages/part.js';
import { isFaultOf, isRefusal, refuse } from '../messages/undecodable.js';
import type { Logger } from '../ports.js';
import type { Session } from '../session.js';
import { PartBatch } from './batch.js';
import { type BatchOptions, type ResolvedBatchOptions, resolveBatchOptions } from './batch-options.js';
import { Cancellation } from './cancellation.js';
import type { KeepOptions, KeptReply, KeptRequest, ReplyKeeper } from './keeping.js';
import { Output, type OutputOptions, type ReplySink } from './output.js';
import { messagesOf } from './said.js';

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
  /** The handler is called for the so-many-th time: more than 1 only after {@link onLost} with `again`. */
  readonly attempt: number;
  /**
   * The parts that former calls of the handler have yielded and that are on record, oldest first. The requester gets each
   * of them once, before the first part that this call yields.
   */
  readonly said: readonly Message[];
  /**
   * Server: whether another node calls the handler again if this one dies, with {@link attempt} and {@link said}. The
   * handler goes on with what it yields then. Else its reply fails with `interrupted` after the parts that are on record.
   * Has no effect in a session that is not durable.
   *
   * @default 'fail'
   * @throws {ProtocolError} `invalid_argument` if it is neither of the two, or `fail` after `again`.
   */
  onLost(policy: 'fail' | 'again'): void;
  /**
   * Sends metadata before the next part, or with the whole reply. Call it before the first part, so that the
   * requester has the metadata when it reads that part.
   *
   * @throws {ProtocolError} `invalid_argument` if it is not an object; `metadata_too_large`.
   */
  setMetadata(metadata: Metadata): void;
  /**
   * Joins the parts that follow into batches; `undefined` sends each part by itself.
   *
   * @throws {ProtocolError} `invalid_option`.
   */
  setBatch(options: BatchOptions | undefined): void;
  /**
   * Server: keeps the reply, so that it can be followed from any part, now and after its end, and lets the handler go
   * on when the session ends, as {@link runToCompletion} does. From then on only the requester's cancel, a `stop()` of
   * its owner, and `abandonAfterMs` without a reader stop the handler. Call it before the first part; a second call
   * replaces the first.
   *
   * @throws {ProtocolError} `unsupported` at a client; `invalid_argument` after the first part; `invalid_option`; `too_many_replies` or `over_budget` if a bound of the principal or the server is met.
   */
  keep(options?: KeepOptions): KeptReply;
}

/**
 * Answers a request: returns one part, or yields several. An error that it throws reaches the requester as
 * `internal` without details, unless it is a `RequestError`, or was thrown because the request cannot be
 * decoded.
 */
export type RequestHandler<Of extends Session = Session> = (
  request: Message,
  context: RequestContext<Of>,
) => Part | undefined | Promise<Part | undefined> | AsyncIterable<Part>;

/** The context as wrappers of a handler see it. */
export interface OwnContext extends RequestContext {
  /** Whether {@link signal} has aborted; asking for this does not make one. */
  readonly isCancelled: boolean;
}

/** A handler of Parlance itself, whose parts may be coded already. */
export type OwnHandler = (
  request: Message,
  context: RequestContext,
) => ReturnType<RequestHandler> | AsyncIterable<Part | CodedPart>;

/** What yields the parts of a reply, for handlers that have to wait for it. Those of applications yield themselves. */
export class LateParts {
  readonly parts: AsyncIterable<Part>;

  constructor(parts: AsyncIterable<Part>) {
    this.parts = parts;
  }
}

export interface AnswerOptions extends OutputOptions {
  readonly session: Session;
  readonly logger: Logger;
  readonly clock: Clock;
  /** The bytes of a `Blob`, if the peer accepts as many. */
  readonly read: (blob: BlobBody) => Promise<Uint8Array>;
  /**
   * Called after a part of `size` bytes. Resolves when other work has had the event loop; `undefined` if it
   * need not.
   */
  readonly rest: (size: number) => Promise<void> | undefined;
  /** Answers requests for bodies that this end has offered. @default they are refused */
  readonly pulls?: Pulls | undefined;
  /** How parts are joined unless the handler chooses otherwise. */
  readonly batch: ResolvedBatchOptions | undefined;
}

/** How a handler is called. */
export interface CallOptions {
  /** The handler is Parlance's own, so the errors that it throws are part of the protocol. @default false */
  readonly isOwn?: boolean | undefined;
  /** Earlier calls of the handler. @default none */
  readonly attempt?: number | undefined;
  readonly said?: readonly CodedBody[] | undefined;
}

export interface ResponderOptions extends AnswerOptions {
  readonly core: SessionCore;
  /** Writes what was given to the core and handles its events. */
  readonly pump: () => void;
  /** Resolves when a stream has room for more. */
  readonly ready: (streamId: number) => Promise<void>;
  readonly hasRoom: (streamId: number) => boolean;
  /** Server: keeps replies. */
  readonly keeper: ReplyKeeper | undefined;
  /** A handler has ended. */
  readonly onAnswered: () => void;
  /** Server: a handler is to be called again if this process dies. */
  readonly repeat: (streamId: number) => void;
}

/** A handler that has not returned. */
interface Running {
  readonly cancellation: Cancellation;
  runsToCompletion: boolean;
}

/** Answers the requests of one session with handlers. */
export class Responder {
  readonly #options: ResponderOptions;
  readonly #running = new Map<number, Running>();

  constructor(options: ResponderOptions) {
    this.#options = options;
  }

  /** Resolves when the reply is complete or no longer wanted. Never rejects. */
  async run(
    streamId: number,
    message: ReceivedMessage,
    handler: OwnHandler | undefined,
    call: CallOptions = {},
  ): Promise<void> {
    const running: Running = { cancellation: new Cancellation(), runsToCompletion: false };
    this.#running.set(streamId, running);
    const { core, pump, session, logger } = this.#options;
    // The handler takes the request now.
    if (core.channel.consume(streamId, message.charge)) pump();
    const sink = this.#sinkOf(streamId, running);
    try {
      await answer(message, handler, running.cancellation, sink, this.#options, call);
    } catch (error) {
      // A single request must not end the process.
      const fields = { event: 'request.unanswered', session: session.id, err: loggable(error) };
      logger.error(fields, 'could not answer a request');
      core.channel.fail(streamId, undefined);
      pump();
    } finally {
      message.release();
      this.#running.delete(streamId);
      this.#options.onAnswered();
    }
  }

  /** Stops a handler. @param reason why. @default the requester no longer wants the reply */
  cancel(
    streamId: number,
    reason: ProtocolError = new ProtocolError('cancelled', 'the requester cancelled', { side: 'remote' }),
  ): void {
    this.#running.get(streamId)?.cancellation.abort(reason);
  }

  /** The streams of the handlers that have not returned. */
  get streams(): Iterable<number> {
    return this.#running.keys();
  }

  /** Fails a reply, and stops its handler. */
  fail(streamId: number, reason: ProtocolError): void {
    const running = this.#running.get(streamId);
    this.#running.delete(streamId);
    this.#options.core.channel.fail(streamId, reason);
    running?.cancellation.abort(reason);
    this.#options.pump();
  }

  /** Stops all handlers except those that run to completion. */
  abort(reason: ProtocolError): void {
    for (const { cancellation, runsToCompletion } of this.#running.values()) {
      if (!runsToCompletion) cancellation.abort(reason);
    }
  }

  #sinkOf(streamId: number, running: Running): ReplySink {
    const { core, pump, ready, hasRoom, keeper, session, repeat } = this.#options;
    return {
      respond(body) {
        core.channel.respond(streamId, body);
        pump();
      },
      chunk(body) {
        core.channel.chunk(streamId, body);
        pump();
      },
      end() {
        core.channel.end(streamId);
        pump();
      },
      fail(error) {
        core.channel.fail(streamId, error);
        pump();
      },
      refuse(error) {
        core.channel.refuse(streamId, error);
        pump();
      },
      isWanted: () => core.channel.isWanted(streamId),
      runToCompletion() {
        running.runsToCompletion = true;
        core.channel.runToCompletion(streamId);
      },
      repeat: () => repeat(streamId),
      ready: () => ready(streamId),
      hasRoom: () => hasRoom(streamId),
      keep(options, freed) {
        if (keeper === undefined) throw new ProtocolError('unsupported', 'keep: only a server keeps replies');
        const request: KeptRequest = {
          session,
          isWanted: () => core.channel.isWanted(streamId),
          stop: (reason) => running.cancellation.abort(reason),
        };
        const recorder = keeper.keep(request, options, freed);
        this.runToCompletion();
        return recorder;
      },
    };
  }
}

/** Runs the handler for one request until its reply is complete or no longer wanted. */
export async function answer(
  request: Message,
  requestHandler: OwnHandler | undefined,
  cancellation: Cancellation,
  sink: ReplySink,
  options: AnswerOptions,
  { isOwn, attempt = 1, said }: CallOptions = {},
): Promise<void> {
  const { session, coder, logger, clock } = options;
  let runsToCompletion = false;
  let batching = options.batch;
  let batch: PartBatch | undefined;
  const output = new Output(sink, cancellation, options, isOwn);
  const sendPart = async (part: Part | CodedPart): Promise<void> => {
    const coded = encodePart(isBlob(part) ? await options.read(part) : part, coder);
    const body = coded instanceof Promise ? await coded : coded;
    await output.part(body);
    const rest = options.rest(body.bytes.length);
    if (rest !== undefined) await rest;
  };
  try {
    // Decodes the metadata, which may be malformed.
    const { metadata } = request;
    const handler = isPull(metadata) ? (options.pulls?.answer ?? refusePull) : requestHandler;
    if (handler === undefined) {
      return sink.fail(
        new ProtocolError('unsupported', 'this end does not answer requests: it has no onRequest handler'),
      );
    }
    const context: OwnContext = {
      session,
      get signal() {
        return cancellation.signal;
      },
      get isCancelled() {
        return cancellation.isAborted;
      },
      metadata,
      runToCompletion() {
        runsToCompletion = true;
        sink.runToCompletion();
      },
      setMetadata: (reply) => output.setMetadata(reply),
      setBatch(batch) {
        batching = resolveBatchOptions(batch);
      },
      keep: (options) => output.keep(options),
      attempt,
      said: said === undefined ? NONE_SAID : messagesOf(said, coder),
      onLost: repeatOnce(sink),
    };
    const called = handler(request, context);
    const whole = isAsyncIterable(called) ? undefined : await called;
    const parts = isAsyncIterable(called) ? called : whole instanceof LateParts ? whole.parts : undefined;
    if (parts !== undefined) {
      for await (const part of parts) {
        if (!output.isWanted) {
          if (runsToCompletion && !cancellation.isAborted) continue;
          break;
        }
        if (batching !== undefined && !(part instanceof CodedPart)) {
          batch ??= new PartBatch(clock, sendPart);
          await batch.push(part, batching);
        } else {
          if (batch !== undefined) await batch.flush();
          await sendPart(part);
        }
      }
      if (batch !== undefined) await batch.flush();
      const ended = output.end();
      if (ended !== undefined) await ended;
    } else {
      const content = isBlob(whole) ? await options.read(whole) : (whole ?? '');
      const body = await encodePart(content, coder, { metadata: output.takeMetadata() });
      const ended = output.respond(body);
      if (ended !== undefined) await ended;
    }
  } catch (error) {
    batch?.drop();
    const isFault = isFaultOf(request, error);
    if (!cancellation.isAborted) {
      const fields = { event: 'request.failed', session: session.id, err: loggable(error) };
      // The peer is notified of its own fault, and can cause it as often as it likes: do not flood the log.
      const isExpected = isFault || isRefusal(error) || (isOwn === true && isProtocolError(error));
      logger[isExpected ? 'debug' : 'warn'](fields, 'a request handler failed');
    }
    const ended = isFault ? output.refuse(error) : output.fail(error);
    if (ended !== undefined) await ended;
  }
}

const NONE_SAID: readonly Message[] = [];

function repeatOnce(sink: ReplySink): RequestContext['onLost'] {
  let isAgain = false;
  return (policy) => {
    if (policy === 'again') {
      isAgain = true;
      sink.repeat?.();
    } else if (policy !== 'fail') {
      throw new ProtocolError('invalid_argument', "onLost: expected 'fail' or 'again'");
    } else if (isAgain) {
      throw new ProtocolError('invalid_argument', "onLost: 'again' was said before, and may be on record");
    }
  };
}

/** Whether a request asks for the body of another request. */
function isPull(metadata: Metadata): boolean {
  const { http } = metadata;
  return isFields(http) && get(http, 'pull') != null;
}

const refusePull = () => {
  throw refuse(new RequestError('unknown_body', 'this end has offered no body'));
};
