import { ProtocolError } from '../../base/errors.js';
import type { CodedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import { encodeMetadata, type Metadata } from '../messages/metadata.js';
import type { KeepOptions, KeptReply, ReplyRecorder } from './keeping.js';
import { KEPT } from './kept-metadata.js';

/** Sends the reply to one request. */
export interface ReplySink {
  respond(body: CodedBody): void;
  chunk(body: CodedBody): void;
  end(): void;
  fail(error: unknown): void;
  /** Reports to the requester that its request cannot be decoded. */
  refuse(error: ProtocolError): void;
  isWanted(): boolean;
  /** Only the requester may stop the handler from now on. */
  runToCompletion(): void;
  /** Resolves when the stream has room for more. */
  ready(): Promise<void>;
  /** Whether the stream has room now. */
  hasRoom(): boolean;
  /** Records the reply from now on. @throws {ProtocolError} as `RequestContext.keep`. */
  keep(options: KeepOptions | undefined): ReplyRecorder;
}

export interface OutputOptions {
  readonly coder: BodyCoder;
  /** Bytes of encoded metadata. */
  readonly maxMetadataSize: number;
  /** The requester understands the metadata that names a kept reply. @default false */
  readonly hasReplies?: boolean | undefined;
  /** The handler is Parlance's own, so the errors that it throws are part of the protocol. @default false */
  readonly isOwn?: boolean | undefined;
}

/**
 * Takes the reply of one handler: to its requester, and to the record if the reply is kept.
 *
 * The requester of a kept reply holds nothing back: once its stream is full, it gets the parts from the record, at the
 * pace at which it reads, and directly again when it has caught up.
 */
export class Output {
  readonly #sink: ReplySink;
  readonly #signal: AbortSignal;
  readonly #options: OutputOptions;
  /** Metadata for the next body to the requester. */
  #pending: Uint8Array | undefined;
  #given: Metadata | undefined;
  #hasParts = false;
  #recorder: ReplyRecorder | undefined;
  /** The ID that the requester is yet to be told. */
  #untold: string | undefined;
  /** Recorded parts that were sent to the requester. */
  #sent = 0;
  /** Settles when the requester has caught up with the record; `undefined` while it is not behind. */
  #catchUp: Promise<void> | undefined;

  /** @param signal aborts when the handler is to stop. */
  constructor(sink: ReplySink, signal: AbortSignal, options: OutputOptions) {
    this.#sink = sink;
    this.#signal = signal;
    this.#options = options;
  }

  /** The next part has a reader: the requester, or the record. */
  get isWanted(): boolean {
    return this.#record === undefined ? this.#sink.isWanted() : !this.#signal.aborted;
  }

  /** The record, while it takes parts. */
  get #record(): ReplyRecorder | undefined {
    return this.#recorder?.isFull === false ? this.#recorder : undefined;
  }

  /** @throws {ProtocolError} `invalid_argument`, `metadata_too_large`. */
  setMetadata(metadata: Metadata): void {
    const encoded = encodeMetadata(metadata, this.#options.maxMetadataSize);
    if (Object.hasOwn(metadata, KEPT) && this.#options.isOwn !== true) {
      throw new ProtocolError('invalid_argument', `metadata: the name ${KEPT} is reserved`);
    }
    this.#given = metadata;
    this.#pending = encoded;
    if (encoded !== undefined) this.#recorder?.setMetadata(encoded);
  }

  /** @throws {ProtocolError} see `RequestContext.keep`. */
  keep(options: KeepOptions | undefined): KeptReply {
    if (this.#hasParts) {
      throw new ProtocolError('invalid_argument', 'keep: call it before the first part of the reply');
    }
    const former = this.#recorder;
    const recorder = this.#sink.keep(options);
    former?.discard();
    this.#recorder = recorder;
    if (this.#pending !== undefined) recorder.setMetadata(this.#pending);
    if (this.#options.hasReplies) this.#untold = recorder.id;
    if (this.#signal.aborted) this.#handleAbort();
    else if (former === undefined)
      this.#signal.addEventListener('abort', () => this.#handleAbort(), { once: true });
    return { id: recorder.id };
  }

  /** Metadata travels once, with the next body. @throws {ProtocolError} `metadata_too_large`. */
  takeMetadata(): Uint8Array | undefined {
    const [pending, untold] = [this.#pending, this.#untold];
    this.#pending = undefined;
    this.#untold = undefined;
    if (untold === undefined) return pending;
    const given = pending === undefined ? undefined : this.#given;
    return encodeMetadata({ ...given, [KEPT]: { id: untold } }, Infinity);
  }

  /** Resolves when there is room for the next part. */
  part(body: CodedBody): Promise<void> {
    this.#hasParts = true;
    const record = this.#record;
    return record === undefined ? this.#sendDirectly(body) : this.#partOnRecord(body, record);
  }

  /** The methods that end the reply return `undefined` if they have nothing to wait for. */
  end(): Promise<void> | undefined {
    return this.#finish(undefined, () => {
      this.#announce();
      this.#sink.end();
    });
  }

  /** The whole reply. */
  respond(body: CodedBody): Promise<void> | undefined {
    const recorded = this.#record?.append(body);
    const finish = () => this.#finish(undefined, () => this.#sink.respond(body));
    return recorded === undefined ? finish() : recorded.then(finish);
  }

  fail(error: unknown): Promise<void> | undefined {
    const reason = this.#recorder !== undefined && this.#signal.aborted ? this.#signal.reason : error;
    return this.#finish(reason, () => this.#sink.fail(reason));
  }

  refuse(error: ProtocolError): Promise<void> | undefined {
    return this.#finish(error, () => this.#sink.refuse(error));
  }

  #sendDirectly(body: CodedBody): Promise<void> {
    this.#announce();
    this.#chunk(body);
    return this.#sink.ready();
  }

  /** The metadata of a part on record goes ahead: the requester does not count an empty part that carries metadata. */
  #chunk(body: CodedBody): void {
    const { metadata } = body;
    if (metadata === undefined) return this.#sink.chunk(body);
    this.#sink.chunk(this.#options.coder.encodeNothing(metadata));
    this.#sink.chunk({ ...body, metadata: undefined });
  }

  /** A part is told to the requester once it is on record. */
  async #partOnRecord(body: CodedBody, record: ReplyRecorder): Promise<void> {
    const recorded = record.append(body);
    if (recorded !== undefined) await recorded;
    if (record.isFull) {
      await this.#catchUp;
      return await this.#sendDirectly(body);
    }
    // The requester may have got the part from the record in between.
    const isNext = this.#sent === record.parts - 1;
    if (this.#catchUp !== undefined || !isNext || !this.#sink.isWanted()) return;
    if (this.#sink.hasRoom()) {
      this.#sent++;
      this.#announce();
      this.#sink.chunk(body);
    } else this.#catchUp = this.#feed(record);
  }

  /** @param error what the record ends with. */
  #finish(error: unknown, tell: () => void): Promise<void> | undefined {
    const recorder = this.#recorder;
    return recorder === undefined ? void tell() : this.#finishRecord(recorder, error, tell);
  }

  async #finishRecord(recorder: ReplyRecorder, error: unknown, tell: () => void): Promise<void> {
    await recorder.end(error);
    await this.#catchUp;
    tell();
  }

  /**
   * Sends metadata in an empty part of its own, which the requester does not count as a part of the reply.
   */
  #announce(): void {
    const metadata = this.takeMetadata();
    if (metadata !== undefined) this.#sink.chunk(this.#options.coder.encodeNothing(metadata));
  }

  /** Sends what is on record, until the requester has all of it. Never rejects. */
  async #feed(record: ReplyRecorder): Promise<void> {
    // The parts on record have their metadata with them.
    this.#pending = undefined;
    try {
      while (this.#sent < record.parts) {
        for await (const body of record.read(this.#sent)) {
          await this.#sink.ready();
          if (!this.#sink.isWanted()) return;
          this.#announce();
          this.#sent++;
          this.#chunk(body);
        }
      }
    } catch (error) {
      this.#sink.fail(error);
    } finally {
      this.#catchUp = undefined;
    }
  }

  /** The handler is to stop; its reply ends now, although it may not heed that. */
  #handleAbort(): void {
    const { reason } = this.#signal;
    void this.#recorder?.end(reason);
    this.#sink.fail(reason);
  }
}
