import { type CodedBody, type Logger, ProtocolError } from '@parlance/protocol';
import {
  encodeFailure,
  endpointOf,
  type KeptRequest,
  loggable,
  type ReplyRecorder,
  toProtocolError,
} from '@parlance/protocol/internal';
import type { ReplyLog } from './log.js';
import { encodeRecord } from './record.js';
import type { Failing } from './writer.js';

export interface RecordingOptions {
  readonly id: string;
  readonly request: KeptRequest;
  readonly abandonAfterMs: number;
  readonly log: ReplyLog;
  readonly logger: Logger;
  /** Milliseconds of the process, for all that lasts. */
  readonly now: () => number;
  /** Unix milliseconds, for what is written down. */
  readonly date: () => number;
  /** The log has begun the reply. @default at once */
  readonly opened?: Promise<void> | undefined;
  /** Recorded parts. @default 0 */
  readonly parts?: number | undefined;
  /** The handler had ended before. @default false */
  readonly isOver?: boolean | undefined;
  readonly read: (after: number) => AsyncIterable<Iterable<CodedBody>>;
  /** The log had no room for the reply. */
  readonly onUnkept: (error: unknown) => void;
  /** The handler has ended, or a bound was met. */
  readonly onOver: (recording: Recording) => void;
}

/** The record of one reply whose handler runs. */
export class Recording implements ReplyRecorder {
  readonly id: string;
  isFull = false;
  isUnbegun = false;
  parts: number;
  /** Sessions that follow the reply. */
  followers = 0;
  readonly #options: RecordingOptions;
  #metadata: Uint8Array | undefined;
  #isOver = false;
  /** Settles when the engine has taken everything so far; `undefined` if it answers at once. */
  #last: Promise<void> | undefined;
  /** When the reply was last seen to have a reader. */
  #readAt: number;

  constructor(options: RecordingOptions) {
    this.#options = options;
    this.id = options.id;
    this.parts = options.parts ?? 0;
    this.#isOver = options.isOver === true;
    this.#last = options.opened?.catch((error: unknown) => this.#handleUnbegun(error));
    this.#readAt = options.now();
  }

  setMetadata(metadata: Uint8Array): void {
    this.#metadata = metadata;
  }

  append(body: CodedBody): Promise<void> | undefined {
    if (this.#isOver) return undefined;
    const record = encodeRecord(body, this.#metadata);
    this.#metadata = undefined;
    return this.appendRecord(record);
  }

  /** As {@link append}. */
  appendRecord(record: Uint8Array): Promise<void> | undefined {
    if (this.#last !== undefined) {
      this.#last = this.#last.then(() => this.#append(record));
      return this.#last;
    }
    const appended = this.#append(record);
    if (appended === undefined) return undefined;
    this.#last = appended;
    return appended;
  }

  end(error?: unknown): Promise<void> | undefined {
    if (this.#isOver) return this.#last?.catch(() => {});
    this.#handleOver();
    const failure = error === undefined ? undefined : encodeFailure(error);
    const metadata = this.#metadata;
    const end = () => this.#end(failure, metadata);
    // The failure of an earlier part was reported then.
    this.#last = this.#last === undefined ? end() : this.#last.catch(this.#logUnended).then(end);
    return this.#last;
  }

  release(isRead: boolean): void {
    this.#options.log.release(this.id, isRead);
  }

  discard(): Promise<void> | undefined {
    this.#handleOver();
    // A reply that the log could not begin is dropped as well.
    return this.#last === undefined ? this.#drop() : this.#last.catch(() => {}).then(() => this.#drop());
  }

  read(after: number): AsyncIterable<Iterable<CodedBody>> {
    return this.#options.read(after);
  }

  /** Stops the handler. */
  stop(reason: ProtocolError): void {
    this.#options.request.stop(reason);
    // A handler that has no signal to heed any more, such as one that has just returned.
    void this.end(reason);
  }

  /** Another process continues the reply, and its record. */
  leave(reason: ProtocolError): void {
    this.isFull = true;
    this.#handleOver();
    this.#options.log.leave(this.id);
    this.#options.request.stop(reason);
  }

  /**
   * Whether a session has the request, and the node that continues the session from its record calls the handler again.
   */
  goesOnFrom(session: unknown): boolean {
    const { request } = this.#options;
    return endpointOf(request.session) === session && request.isRepeated();
  }

  /** Stops the handler if the reply has had no reader for too long. */
  checkRead(): void {
    const { request, abandonAfterMs, now, log } = this.#options;
    if (this.followers > 0 || request.isWanted()) this.#readAt = now();
    else if (now() - this.#readAt < abandonAfterMs) return;
    else void log.isFollowed(this.id).then((isFollowed) => this.#abandonUnless(isFollowed));
  }

  #abandonUnless(isFollowed: boolean): void {
    const { abandonAfterMs, now } = this.#options;
    if (isFollowed) this.#readAt = now();
    else if (!this.#isOver)
      this.stop(new ProtocolError('cancelled', `the reply had no reader for ${abandonAfterMs} ms`));
  }

  /** The log has found out that it takes no more, and has ended the record. */
  handleFailed(error: ProtocolError, why: Failing): void {
    if (this.isFull) return;
    this.isFull = true;
    if (why !== 'stopped') this.#logFull(error);
    if (why !== 'full') this.#options.request.stop(error);
    this.#handleOver();
  }

  /** The log did not begin the reply. */
  #handleUnbegun(error: unknown): void {
    if (this.isFull) return;
    this.isFull = true;
    this.isUnbegun = true;
    this.#options.onUnkept(error);
    this.#handleOver();
  }

  #append(record: Uint8Array): Promise<void> | undefined {
    if (this.isFull) return undefined;
    const giveUp = (error: unknown) => this.#giveUp(error);
    return attempted(
      () => this.#options.log.append(this.id, record),
      giveUp,
      () => void this.parts++,
    );
  }

  /** Ends the record. Never rejects. */
  #end(failure: Uint8Array | undefined, metadata: Uint8Array | undefined): Promise<void> | undefined {
    if (this.isFull) return undefined;
    const end = { at: this.#options.date(), failure, metadata };
    return attempted(
      () => this.#options.log.end(this.id, end),
      (error) => this.#giveUp(error),
    );
  }

  /** Never rejects. */
  #drop(): Promise<void> | undefined {
    return attempted(() => this.#options.log.drop(this.id), this.#logUnended);
  }

  /** The record ends with an error, and its handler continues for its requester. */
  #giveUp(error: unknown): Promise<void> | undefined {
    this.isFull = true;
    const { log, date } = this.#options;
    this.#logFull(error);
    this.#handleOver();
    const reason = toProtocolError(error, 'internal', 'the log of replies failed');
    const end = { at: date(), failure: encodeFailure(reason), metadata: undefined };
    return attempted(() => log.end(this.id, end), this.#logUnended);
  }

  #logFull(error: unknown): void {
    const fields = { event: 'reply.full', reply: this.id, err: loggable(error) };
    this.#options.logger.warn(fields, 'a reply is no longer kept: the log takes no more of it');
  }

  /** The handler has ended, or the record takes no more. */
  #handleOver(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.onOver(this);
  }

  readonly #logUnended = (error: unknown): void => {
    const fields = { event: 'reply.unended', reply: this.id, err: loggable(error) };
    this.#options.logger.warn(fields, 'the log of replies failed');
  };
}

/** Calls a log that answers at once or later. */
function attempted(
  call: () => Promise<void> | undefined,
  onFailed: (error: unknown) => Promise<void> | undefined | void,
  onDone = () => {},
): Promise<void> | undefined {
  try {
    const called = call();
    if (called !== undefined) return called.then(onDone, onFailed);
  } catch (error) {
    return onFailed(error) ?? undefined;
  }
  onDone();
  return undefined;
}
