import { isProtocolError, ProtocolError } from '../../base/errors.js';
import type { CodedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import { encodeMetadata, type Metadata } from '../messages/metadata.js';
import type { Cancellation } from './cancellation.js';
import type { KeepOptions, KeptBefore, KeptReply, ReplyRecorder, TakenUp } from './keeping.js';
import { KEPT } from './kept-metadata.js';
import { hasContent } from './yielded.js';

/** Sends the reply to one request. */
export interface ReplySink {
  respond(body: CodedBody): void;
  chunk(body: CodedBody): void;
  end(): void;
  fail(error: unknown): void;
  /** Reports to the requester that its request cannot be decoded. */
  refuse(error: ProtocolError): void;
  isWanted(): boolean;
  /** The handler is to be called again if this process dies. */
  repeat?(): void;
  /** Only the requester may stop the handler from now on. */
  runToCompletion(): void;
  /** Resolves when the stream has room for more. */
  ready(): Promise<void>;
  /** Whether the stream has room now. */
  hasRoom(): boolean;
  /** Records the reply from now on. @throws {ProtocolError} as `RequestContext.keep`. */
  keep(options: KeepOptions | undefined, before: KeptBefore): ReplyRecorder | undefined;
  /** As `ReplyKeeper.takeUp`. */
  takeUp(id: string, yielded: readonly CodedBody[]): Promise<TakenUp>;
}

/** The state that calls of a handler left behind in former processes. */
export interface Former {
  /** The ID under which the reply was kept. */
  readonly kept?: string | undefined;
  /** The parts that are recorded with the session. */
  readonly yielded?: readonly CodedBody[] | undefined;
}

export interface OutputOptions {
  readonly coder: BodyCoder;
  /** Bytes of encoded metadata. */
  readonly maxMetadataSize: number;
  /** The requester understands the metadata that names a kept reply. @default false */
  readonly hasReplies?: boolean | undefined;
}

/** Metadata of the handler, and its encoded form. */
interface Pending {
  readonly metadata: Metadata;
  readonly encoded: Uint8Array;
}

/** Bytes of metadata that name a kept reply, and some more. */
const MIN_SIZE = 64;

/**
 * Takes the reply of one handler: to its requester, and to the record if the reply is kept.
 *
 * The requester of a kept reply holds nothing back: once its stream is full, it gets the parts from the record, at the
 * pace at which it reads, and directly again when it has caught up.
 */
export class Output {
  readonly #sink: ReplySink;
  readonly #cancellation: Cancellation;
  readonly #options: OutputOptions;
  readonly #isOwn: boolean;
  /** Metadata for the next body to the requester. */
  #pending: Pending | undefined;
  #hasParts = false;
  #isListening = false;
  #recorder: ReplyRecorder | undefined;
  /** The ID that the requester is yet to be told. */
  #untold: string | undefined;
  /** Recorded parts that were sent to the requester. */
  #sent = 0;
  /** The state of the reply and of its record that former processes left behind. */
  #former: Former = {};
  #formerState: TakenUp['state'] | undefined;
  /** Processes before have yielded parts, so that this is not a reply of one part. */
  isContinued = false;
  /** Settles when the requester has caught up with the record; `undefined` while it is not behind. */
  #catchUp: Promise<void> | undefined;

  /**
   * @param cancellation of the handler.
   * @param isOwn whether that is Parlance's own, which may use names of metadata that are reserved.
   */
  constructor(sink: ReplySink, cancellation: Cancellation, options: OutputOptions, isOwn = false) {
    this.#sink = sink;
    this.#cancellation = cancellation;
    this.#options = options;
    this.#isOwn = isOwn;
  }

  /** The next part has a reader: the requester, or the record. */
  get isWanted(): boolean {
    return this.#record === undefined ? this.#sink.isWanted() : !this.#cancellation.isAborted;
  }

  /** The record, while it takes parts. */
  get #record(): ReplyRecorder | undefined {
    return this.#recorder?.isFull === false ? this.#recorder : undefined;
  }

  /** @throws {ProtocolError} `invalid_argument`, `metadata_too_large`. */
  setMetadata(metadata: Metadata): void {
    const encoded = encodeMetadata(metadata, this.#options.maxMetadataSize);
    if (Object.hasOwn(metadata, KEPT) && !this.#isOwn) {
      throw new ProtocolError('invalid_argument', `metadata: the name ${KEPT} is reserved`);
    }
    this.#pending = encoded && { metadata, encoded };
    if (encoded !== undefined) this.#recorder?.setMetadata(encoded);
  }

  /**
   * Continues a reply of which former processes have recorded something.
   *
   * @returns all parts that they have yielded; `undefined` if their handler had ended, and so the reply has.
   */
  async takeUp(former: Former): Promise<readonly CodedBody[] | undefined> {
    const { kept, yielded = [] } = former;
    this.#former = former;
    this.isContinued = yielded.some(hasContent);
    if (kept === undefined) return yielded;
    const taken = await this.#sink.takeUp(kept, yielded);
    this.#formerState = taken.state;
    if (taken.recorder === undefined) return yielded;
    const { recorder, rest = [], end } = taken;
    this.#begin(recorder, yielded);
    if (rest.length > 0) this.isContinued = true;
    if (this.#sent < recorder.parts) this.#catchUp = this.#feed(recorder);
    if (end === undefined) return [...yielded, ...rest];
    await this.#catchUp;
    const isRead = this.#sink.isWanted();
    if (end.error === undefined) {
      this.#announce(undefined);
      this.#sendNothing(end.metadata);
      this.#sink.end();
    } else this.#sink.fail(end.error);
    recorder.release(isRead);
    return undefined;
  }

  /** @throws {ProtocolError} see `RequestContext.keep`. */
  keep(options: KeepOptions | undefined): KeptReply | undefined {
    if (this.#hasParts) {
      throw new ProtocolError('invalid_argument', 'keep: call it before the first part of the reply');
    }
    const present = this.#recorder;
    if (this.#formerState === 'unkept') return undefined;
    if (this.#formerState === 'found' && present !== undefined) return { id: present.id };
    const { kept: id, yielded = [] } = this.#former;
    // First, so that its place is free.
    const freed = present?.discard();
    this.#recorder = undefined;
    this.#untold = undefined;
    const recorder = this.#sink.keep(options, { freed, id, yielded, isLost: this.#formerState === 'lost' });
    if (recorder === undefined) return undefined;
    this.#begin(recorder, yielded);
    if (this.#pending !== undefined) recorder.setMetadata(this.#pending.encoded);
    return { id: recorder.id };
  }

  /** @param yielded parts that the requester has, or gets from the session. */
  #begin(recorder: ReplyRecorder, yielded: readonly CodedBody[]): void {
    this.#recorder = recorder;
    this.#sent = yielded.filter(hasContent).length;
    // A requester that has parts was told with the first one.
    if (this.#options.hasReplies && this.#sent === 0) this.#untold = recorder.id;
    const { isAborted, signal } = this.#cancellation;
    if (isAborted) return this.#handleAbort();
    if (!this.#isListening) signal.addEventListener('abort', () => this.#handleAbort(), { once: true });
    this.#isListening = true;
  }

  /**
   * Metadata travels once, with the next body. The ID of a kept reply is left out if it does not fit beside the
   * handler's own metadata.
   */
  takeMetadata(): Uint8Array | undefined {
    const pending = this.#takePending();
    const id = this.#takeUntold();
    return (id === undefined ? undefined : this.#withId(id, pending)) ?? pending?.encoded;
  }

  /** Resolves when there is room for the next part; `undefined` if there is some. */
  part(body: CodedBody): Promise<void> | undefined {
    this.#hasParts = true;
    const record = this.#record;
    return record === undefined ? this.#sendNext(body) : this.#partOnRecord(body, record);
  }

  /** The methods that end the reply return `undefined` if they have nothing to wait for. */
  end(): Promise<void> | undefined {
    return this.#finish(undefined, () => {
      this.#announce(this.#takePending());
      this.#sink.end();
    });
  }

  /** The whole reply, unless it {@link isContinued}. */
  respond(body: CodedBody): Promise<void> | undefined {
    const recorded = this.#record?.append(body);
    const finish = () => this.#finish(undefined, () => this.#sink.respond(body));
    return recorded === undefined ? finish() : recorded.then(finish);
  }

  fail(error: unknown): Promise<void> | undefined {
    const { isAborted, reason: why } = this.#cancellation;
    const reason = this.#recorder !== undefined && isAborted ? why : error;
    return this.#finish(reason, () => this.#sink.fail(reason));
  }

  refuse(error: ProtocolError): Promise<void> | undefined {
    return this.#finish(error, () => this.#sink.refuse(error));
  }

  /** Behind what is read from the record. */
  #sendNext(body: CodedBody, metadata = this.#takePending()): Promise<void> | undefined {
    if (this.#catchUp === undefined) return this.#sendDirectly(body, metadata);
    return this.#catchUp.then(() => this.#sendDirectly(body, metadata));
  }

  #sendDirectly(body: CodedBody, metadata: Pending | undefined): Promise<void> | undefined {
    this.#announce(metadata);
    this.#sink.chunk(body);
    return this.#sink.hasRoom() ? undefined : this.#sink.ready();
  }

  /** Tells the requester a part once it is recorded. Most logs answer at once; then this does not wait. */
  #partOnRecord(body: CodedBody, record: ReplyRecorder): Promise<void> | undefined {
    // The record takes it with this part.
    const metadata = this.#takePending();
    const recorded = record.append(body);
    if (recorded === undefined) return this.#tell(body, metadata, record);
    return recorded.then(() => this.#tell(body, metadata, record));
  }

  #tell(body: CodedBody, metadata: Pending | undefined, record: ReplyRecorder): Promise<void> | undefined {
    if (record.isFull) return this.#sendNext(body, metadata);
    // The requester may have got the part from the record in between.
    const isBehind = this.#sent < record.parts;
    if (this.#catchUp !== undefined || !isBehind || !this.#sink.isWanted()) return undefined;
    if (this.#sent === record.parts - 1 && this.#sink.hasRoom()) {
      this.#sent++;
      this.#announce(metadata);
      this.#sink.chunk(body);
    } else this.#catchUp = this.#feed(record);
    return undefined;
  }

  /** @param error what the record ends with. */
  #finish(error: unknown, tell: () => void): Promise<void> | undefined {
    const recorder = this.#recorder;
    return recorder === undefined ? void tell() : this.#finishRecord(recorder, error, tell);
  }

  async #finishRecord(recorder: ReplyRecorder, error: unknown, tell: () => void): Promise<void> {
    await recorder.end(error);
    await this.#catchUp;
    const isRead = this.#sink.isWanted();
    tell();
    recorder.release(isRead);
  }

  /**
   * Sends metadata, and the ID that the requester is yet to be told, in an empty part of their own, which the requester
   * does not count as a part of the reply.
   */
  #announce(pending: Pending | undefined): void {
    const id = this.#takeUntold();
    const together = id === undefined ? undefined : this.#withId(id, pending);
    if (id !== undefined && together === undefined) this.#sendNothing(this.#withId(id, undefined));
    this.#sendNothing(together ?? pending?.encoded);
  }

  #sendNothing(metadata: Uint8Array | undefined): void {
    if (metadata !== undefined) this.#sink.chunk(this.#options.coder.encodeNothing(metadata));
  }

  #takePending(): Pending | undefined {
    const pending = this.#pending;
    this.#pending = undefined;
    return pending;
  }

  #takeUntold(): string | undefined {
    const untold = this.#untold;
    this.#untold = undefined;
    return this.#recorder?.isUnbegun === true ? undefined : untold;
  }

  /** The handler's metadata with the ID of the kept reply; `undefined` if that is too large. */
  #withId(id: string, pending: Pending | undefined): Uint8Array | undefined {
    const together = { ...pending?.metadata, [KEPT]: { id } };
    try {
      return encodeMetadata(together, Math.max(MIN_SIZE, this.#options.maxMetadataSize));
    } catch (error) {
      if (isProtocolError(error) && error.code === 'metadata_too_large') return undefined;
      throw error;
    }
  }

  /** Sends the recorded parts until the requester has all of them. Never rejects. */
  async #feed(record: ReplyRecorder): Promise<void> {
    try {
      while (this.#sent < record.parts) {
        const before = this.#sent;
        for await (const bodies of record.read(before)) {
          for (const body of bodies) {
            if (!this.#sink.hasRoom()) await this.#sink.ready();
            if (!this.#sink.isWanted()) return;
            // The recorded parts carry their metadata.
            this.#announce(undefined);
            this.#sent++;
            for (const each of countable(body, this.#options.coder)) this.#sink.chunk(each);
          }
        }
        if (this.#sent === before) throw new ProtocolError('internal', 'the record of a reply lacks parts');
      }
    } catch (error) {
      this.#sink.fail(error);
    } finally {
      this.#catchUp = undefined;
    }
  }

  /** The handler is to stop; its reply ends now, although it may not heed that. */
  #handleAbort(): void {
    const { reason } = this.#cancellation;
    void this.#recorder?.end(reason);
    this.#sink.fail(reason);
  }
}

/**
 * A part as it may be sent. An empty one with metadata would pass for metadata alone, which is not a part, so the two
 * travel one after the other.
 */
export function countable(body: CodedBody, coder: BodyCoder): readonly CodedBody[] {
  const { metadata, bytes, originalLength } = body;
  if (metadata === undefined || (bytes.length > 0 && originalLength > 0)) return [body];
  return [coder.encodeNothing(metadata), { ...body, metadata: undefined }];
}
