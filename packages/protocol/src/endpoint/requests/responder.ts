import { ProtocolError } from '../../base/errors.js';
import type { BodyCoder } from '../../codec/auto/coder.js';
import type { CodedBody } from '../../codec/body.js';
import type { Clock } from '../../platform/clock.js';
import { loggable } from '../loggable.js';
import type { Message } from '../messages/message.js';
import { encodeMetadata, type Metadata } from '../messages/metadata.js';
import { encodePart, type Part } from '../messages/part.js';
import { isFaultOf } from '../messages/undecodable.js';
import type { Logger } from '../ports.js';
import type { Session } from '../session.js';
import { type BatchOptions, PartBatch, type ResolvedBatchOptions, resolveBatchOptions } from './batch.js';

/** What a handler is given beside the request. */
export interface RequestContext {
  readonly session: Session;
  /** Aborts when the requester cancels or the session ends, never because a connection was lost. */
  readonly signal: AbortSignal;
  /**
   * Lets the handler finish what it does though the session ends meanwhile, for work whose outcome counts
   * even where nobody hears the reply: from here on only a cancel aborts {@link signal}. Parts that nobody
   * can be told any more are dropped. Call it first: a signal that has aborted stays so.
   */
  runToCompletion(): void;
  /** What the requester sent along. */
  readonly metadata: Metadata;
  /** Sends metadata along with the reply; call it before the first part. */
  setMetadata(metadata: Metadata): void;
  /** Joins the parts that follow; `undefined` sends each by itself. @throws {ProtocolError} `invalid_option`. */
  setBatch(options: BatchOptions | undefined): void;
}

/**
 * Answers requests: returns one part, or yields parts. What it throws arrives as `internal` with the
 * detail hidden, unless it is a `RequestError`, or says that the request itself cannot be decoded.
 */
export type RequestHandler = (
  request: Message,
  context: RequestContext,
) => Part | undefined | Promise<Part | undefined> | AsyncIterable<Part>;

/** The way back to the requester. */
export interface ReplySink {
  respond(body: CodedBody): void;
  chunk(body: CodedBody): void;
  end(): void;
  fail(error: unknown): void;
  /** Tells the requester that its request cannot be decoded. */
  refuse(error: ProtocolError): void;
  isWanted(): boolean;
  /** The end of the session is no reason to stop any more. */
  runToCompletion(): void;
  /** Resolves when more can be taken. */
  ready(): Promise<void>;
}

export interface ResponderOptions {
  readonly handler: RequestHandler | undefined;
  readonly session: Session;
  readonly coder: BodyCoder;
  readonly logger: Logger;
  readonly maxMetadataSize: number;
  readonly clock: Clock;
  /** After a part of so many bytes: resolves when others have had the event loop; `undefined` if there is no need. */
  readonly rest: (size: number) => Promise<void> | undefined;
  /** How parts are joined unless the handler says otherwise. */
  readonly batch: ResolvedBatchOptions | undefined;
}

/** Runs the handler for one request until its reply is complete or nobody wants it any more. */
export async function answer(
  request: Message,
  signal: AbortSignal,
  sink: ReplySink,
  options: ResponderOptions,
): Promise<void> {
  const { handler, session, coder, logger, clock } = options;
  if (handler === undefined) {
    sink.fail(new ProtocolError('unsupported', 'this end answers no requests: it has no onRequest handler'));
    return;
  }
  let pending: Uint8Array | undefined;
  /** Metadata travels once, with whatever is sent next. */
  const takeMetadata = () => {
    const metadata = pending;
    pending = undefined;
    return metadata;
  };
  let runsToCompletion = false;
  let batching = options.batch;
  let batch: PartBatch | undefined;
  const sendPart = async (part: Part): Promise<void> => {
    announce();
    const coded = encodePart(part, coder);
    const body = coded instanceof Promise ? await coded : coded;
    sink.chunk(body);
    await sink.ready();
    const rest = options.rest(body.bytes.length);
    if (rest !== undefined) await rest;
  };
  /** A part without bytes that carries metadata is metadata alone and no part of the reply. */
  const announce = () => {
    const metadata = takeMetadata();
    if (metadata !== undefined) sink.chunk(coder.encodeNothing(metadata));
  };
  try {
    // Reads what the peer has sent, which may be malformed.
    const { metadata } = request;
    const context: RequestContext = {
      session,
      signal,
      metadata,
      runToCompletion() {
        runsToCompletion = true;
        sink.runToCompletion();
      },
      setMetadata(reply) {
        pending = encodeMetadata(reply, options.maxMetadataSize);
      },
      setBatch(batch) {
        batching = resolveBatchOptions(batch);
      },
    };
    const outcome = handler(request, context);
    if (isAsyncIterable(outcome)) {
      for await (const part of outcome) {
        if (!sink.isWanted()) {
          if (runsToCompletion && !signal.aborted) continue;
          break;
        }
        if (batching !== undefined) {
          batch ??= new PartBatch(clock, sendPart);
          await batch.push(part, batching);
        } else {
          // Whatever was joined before goes out first.
          if (batch !== undefined) await batch.flush();
          await sendPart(part);
        }
      }
      if (batch !== undefined) await batch.flush();
      announce();
      sink.end();
    } else {
      const part = await outcome;
      sink.respond(await encodePart(part ?? '', coder, { metadata: takeMetadata() }));
    }
  } catch (error) {
    batch?.drop();
    const isFault = isFaultOf(request, error);
    if (!signal.aborted) {
      const fields = { event: 'request.failed', session: session.id, err: loggable(error) };
      // A peer's own fault is told to the peer, and may come as often as it likes.
      logger[isFault ? 'debug' : 'warn'](fields, 'a request handler failed');
    }
    if (isFault) sink.refuse(error);
    else sink.fail(error);
  }
}

function isAsyncIterable(value: unknown): value is AsyncIterable<Part> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
