import { comesOfStopping, isThenable, readable } from '../../base/callbacks.js';
import { isProtocolError, ProtocolError, RequestError } from '../../base/errors.js';
import { get, isFields } from '../../base/fields.js';
import type { CodedBody } from '../../codec/body.js';
import { losesData } from '../../link/failure.js';
import type { Clock } from '../../platform/clock.js';
import type { SessionCore } from '../../session/types.js';
import type { Pulls } from '../http/pulls.js';
import { loggable } from '../loggable.js';
import { CodedPart, encodePart, type PartCoder } from '../messages/encode-part.js';
import type { Message, ReceivedMessage } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import { contentOf, isAsyncIterable, ownContent, type Part } from '../messages/part.js';
import { isUntaken } from '../messages/procedure.js';
import { isFaultOf, isRefusal, refuse } from '../messages/undecodable.js';
import type { Logger } from '../ports.js';
import type { Session } from '../session.js';
import { PartBatch } from './batch.js';
import type { ResolvedBatchOptions } from './batch-options.js';
import { Cancellation } from './cancellation.js';
import { HandlerContext, type RequestContext } from './handler-context.js';
import { type HandlerReply, partsIn, takeParts } from './handler-reply.js';
import {
  assertKeeper,
  type KeepOptions,
  type KeptBefore,
  type KeptRequest,
  type ReplyKeeper,
  type ReplyRecorder,
  type TakenUp,
} from './keeping.js';
import { type Former, Output, type OutputOptions, type ReplySink } from './output.js';
import { WholeCharacters, withoutHalf } from './whole-characters.js';

/**
 * Answers a request: returns one part, or yields several and may return the last; an `async` function may also return a
 * generator. An error that it throws reaches the requester as `internal` without details, unless it is a `RequestError`, or
 * was thrown because the request cannot be decoded.
 */
export type RequestHandler<Of extends Session = Session> = (
  request: Message,
  context: RequestContext<Of>,
) => HandlerReply | Promise<HandlerReply>;

/** A handler of Parlance itself, whose parts may be coded already. */
export type OwnHandler = (
  request: Message,
  context: RequestContext,
) => ReturnType<RequestHandler> | AsyncIterable<Part | CodedPart>;

export interface AnswerOptions extends OutputOptions, PartCoder {
  readonly coder: PartCoder['coder'];
  readonly session: Session;
  readonly logger: Logger;
  readonly clock: Clock;
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
export interface CallOptions extends Former {
  /** The handler is Parlance's own, so the errors that it throws are part of the protocol. @default false */
  readonly isOwn?: boolean | undefined;
  /** Earlier calls of the handler. @default none */
  readonly attempt?: number | undefined;
}

export interface ResponderOptions extends AnswerOptions {
  readonly core: SessionCore;
  /** Writes what was given to the core, none of which causes events. Never throws. */
  readonly transmit: () => void;
  /** Resolves when a stream has room for more. */
  readonly ready: (streamId: number) => Promise<void>;
  readonly hasRoom: (streamId: number) => boolean;
  /** Server: keeps what handlers reply. */
  readonly keeper: ReplyKeeper | undefined;
  /** A handler has ended. */
  readonly onAnswered: () => void;
  /** Server: a handler is to be called again if this process dies. */
  readonly repeat: (streamId: number) => void;
  /** Server: see `KeptRequest.mark`. */
  readonly markKept: (streamId: number, id: string) => Promise<void> | undefined;
}

/** A handler that has not returned. */
interface Running {
  readonly cancellation: Cancellation;
  runsToCompletion: boolean;
  /** It is called again if this process dies. */
  isRepeated: boolean;
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
    const running: Running = {
      cancellation: new Cancellation(),
      runsToCompletion: false,
      // A handler that was called again is recorded as such, even before it says so itself.
      isRepeated: (call.attempt ?? 1) > 1,
    };
    this.#running.set(streamId, running);
    const { core, transmit, session, logger } = this.#options;
    // The handler takes the request now.
    if (core.channel.consume(streamId, message.charge)) transmit();
    const sink = new StreamSink(this.#options, streamId, running);
    try {
      await answer(message, handler, running.cancellation, sink, this.#options, call);
    } catch (error) {
      // A single request must not end the process.
      const fields = { event: 'request.unanswered', session: session.id, err: loggable(error) };
      logger.error(fields, 'could not answer a request');
      core.channel.fail(streamId, undefined);
      transmit();
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
    this.#options.transmit();
  }

  /** Stops all handlers except those that run to completion. */
  abort(reason: ProtocolError): void {
    for (const { cancellation, runsToCompletion } of this.#running.values()) {
      if (!runsToCompletion) cancellation.abort(reason);
    }
  }
}

/** The stream of one request. */
class StreamSink implements ReplySink {
  readonly #options: ResponderOptions;
  readonly #streamId: number;
  readonly #running: Running;

  constructor(options: ResponderOptions, streamId: number, running: Running) {
    this.#options = options;
    this.#streamId = streamId;
    this.#running = running;
  }

  respond(body: CodedBody): void {
    this.#options.core.channel.respond(this.#streamId, body);
    this.#options.transmit();
  }

  chunk(body: CodedBody): void {
    this.#options.core.channel.chunk(this.#streamId, body);
    this.#options.transmit();
  }

  end(): void {
    this.#options.core.channel.end(this.#streamId);
    this.#options.transmit();
  }

  fail(error: unknown): void {
    this.#options.core.channel.fail(this.#streamId, error);
    this.#options.transmit();
  }

  refuse(error: ProtocolError): void {
    this.#options.core.channel.refuse(this.#streamId, error);
    this.#options.transmit();
  }

  isWanted(): boolean {
    return this.#options.core.channel.isWanted(this.#streamId);
  }

  runToCompletion(): void {
    this.#running.runsToCompletion = true;
    this.#options.core.channel.runToCompletion(this.#streamId);
  }

  repeat(): void {
    this.#running.isRepeated = true;
    this.#options.repeat(this.#streamId);
  }

  ready(): Promise<void> {
    return this.#options.ready(this.#streamId);
  }

  hasRoom(): boolean {
    return this.#options.hasRoom(this.#streamId);
  }

  keep(options: KeepOptions | undefined, before: KeptBefore): ReplyRecorder | undefined {
    const recorder = this.#keeper.keep(this.#kept, options, before);
    if (recorder !== undefined) this.runToCompletion();
    return recorder;
  }

  async takeUp(id: string, yielded: readonly CodedBody[]): Promise<TakenUp> {
    const taken = await this.#keeper.takeUp(this.#kept, id, yielded);
    if (taken.state === 'found') this.runToCompletion();
    return taken;
  }

  get #keeper(): ReplyKeeper {
    return assertKeeper(this.#options.keeper);
  }

  get #kept(): KeptRequest {
    const { session, markKept } = this.#options;
    return {
      session,
      streamId: this.#streamId,
      isRepeated: () => this.#running.isRepeated,
      mark: (id) => markKept(this.#streamId, id),
      isWanted: () => this.isWanted(),
      stop: (reason) => this.#running.cancellation.abort(reason),
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
  { isOwn, attempt, ...former }: CallOptions = {},
): Promise<void> {
  const { session, coder, logger, clock } = options;
  let batch: PartBatch | undefined;
  const output = new Output(sink, cancellation, options, isOwn);
  const send = (body: CodedBody): Promise<void> | undefined => {
    const rest = () => options.rest(body.bytes.length);
    const sent = output.part(body);
    return sent === undefined ? rest() : sent.then(rest);
  };
  const sendPart = (part: Part | CodedPart): Promise<void> | undefined => {
    const coded = encodePart(part, options);
    return coded instanceof Promise ? coded.then(send) : send(coded);
  };
  try {
    // Decodes the metadata, which may be malformed.
    const { metadata } = request;
    const handler = isPull(metadata) ? (options.pulls?.answer ?? refusePull) : (requestHandler ?? unanswered);
    const yielded = former.yielded && (await output.takeUp(former));
    if (former.yielded !== undefined && yielded === undefined) return;
    // Its session may have ended meanwhile, and another node call the handler.
    if (cancellation.isAborted) throw cancellation.reason;
    const context = new HandlerContext({
      session,
      coder,
      metadata,
      cancellation,
      output,
      sink,
      batch: options.batch,
      attempt,
      yielded,
    });
    const called = handler(request, context);
    // A generator begins at once, and a value is the answer at once.
    const reply = isAsyncIterable(called) || !isThenable(called) ? called : await called;
    const parts = partsIn<Part | CodedPart>(reply);
    if (parts !== undefined) {
      const characters = new WholeCharacters<Part | CodedPart>((part) => {
        if (!output.isWanted) return context.runsToCompletion && !cancellation.isAborted ? undefined : false;
        const { batching } = context;
        if (batching !== undefined && !(part instanceof CodedPart)) {
          batch ??= new PartBatch(clock, sendPart);
          return batch.push(part, batching);
        }
        if (batch === undefined) return sendPart(part);
        const own = part instanceof CodedPart ? part : ownContent(contentOf(part));
        return batch.flush().then(() => sendPart(own));
      });
      await takeParts(parts, (part) => characters.push(part));
      await characters.end();
      if (batch !== undefined) await batch.flush();
      const ended = output.end();
      if (ended !== undefined) await ended;
    } else if (output.isContinued) {
      await sendPart(reply === undefined ? '' : (withoutHalf(reply) as Part));
      const ended = output.end();
      if (ended !== undefined) await ended;
    } else {
      const coded = encodePart(reply === undefined ? '' : (withoutHalf(reply) as Part), options, {
        metadata: output.takeMetadata(),
      });
      const ended = output.respond(coded instanceof Promise ? await coded : coded);
      if (ended !== undefined) await ended;
    }
    if (isUntaken(request, metadata)) tellUntaken(handler, session, logger);
  } catch (thrown) {
    const error = readable(thrown);
    batch?.drop();
    const isFault = isFaultOf(request, error);
    // A handler that is to stop may throw because of that, but its own faults count.
    if (!cancellation.isAborted || !(isOwn || comesOfStopping(error))) {
      const fields = { event: 'request.failed', session: session.id, err: loggable(error) };
      // The peer is notified of its own fault, and can cause it as often as it likes: do not flood the log.
      const isExpected = isFault || isRefusal(error) || (isOwn === true && isProtocolError(error));
      logger[isExpected ? 'debug' : 'warn'](fields, 'a request handler failed');
    }
    if (losesData(error)) {
      const err = loggable(new ProtocolError('invalid_argument', 'data: expected JSON of at most 8 KiB'));
      const fields = { event: 'request.data_dropped', session: session.id, err };
      logger.warn(fields, 'a RequestError was sent without its data');
    }
    const ended = isFault ? output.refuse(error) : output.fail(error);
    if (ended !== undefined) await ended;
  }
}

/** Handlers that were told of. */
const untaken = new WeakSet<OwnHandler>();

/** Told once for each handler: a peer can ask as often as it likes, and a handler may read the name itself. */
function tellUntaken(handler: OwnHandler, session: Session, logger: Logger): void {
  if (untaken.has(handler)) return;
  untaken.add(handler);
  const err = loggable(new ProtocolError('unsupported', 'let onRequest be serve(contract, handlers)'));
  const fields = { event: 'contract.unserved', session: session.id, err };
  logger.warn(fields, 'a request is one of a contract, and a handler without that contract has answered it');
}

/** Whether a request asks for the body of another request. */
function isPull(metadata: Metadata): boolean {
  const { http } = metadata;
  return isFields(http) && get(http, 'pull') != null;
}

const refusePull = () => {
  throw refuse(new RequestError('unknown_body', 'this end has offered no body'));
};

/** Refuses requests, at an end without `onRequest`. */
export const unanswered: OwnHandler = () => {
  throw refuse(
    new RequestError('unsupported', 'this end does not answer requests: it has no onRequest handler'),
  );
};
