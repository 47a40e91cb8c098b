import { ProtocolError } from '@parlance/protocol';
import { ByteReader, type Reservation } from '@parlance/protocol/internal';
import type { ReceivedReply, ReplyEntry } from './log.js';

export interface ArrivalHost {
  /** @throws {ProtocolError} `bad_message`. */
  readonly readEntry: (bytes: Uint8Array) => ReplyEntry;
  /** @returns `undefined` if the reply is here already. @throws {ProtocolError} the bounds of the log. */
  readonly begin: (entry: ReplyEntry) => ReceivedReply | undefined;
  /** Tells the cluster that the reply is here. */
  readonly announce: (entry: ReplyEntry) => Promise<void>;
  /** The reply can be read here. */
  readonly onTaken: (entry: ReplyEntry) => void;
  /** Reserves memory for an item that comes in several pieces. @throws {ProtocolError} `over_budget`. */
  readonly reserve: (size: number) => Reservation;
  /** Bytes of an item. */
  readonly maxItem: number;
}

/** Items after the parts: failure and metadata of the end. */
const ENDINGS = 2;
const NOTHING = new Uint8Array(0);
const LONGEST_LENGTH = 5;

/**
 * One reply that another node hands over, as its bytes arrive: a list of items, each after its length. They are its entry
 * as JSON, its parts, and the failure and the metadata of its end, which are empty if there are none.
 */
export class Arrival {
  readonly #host: ArrivalHost;
  /** The beginning of an item, and memory for all of it. */
  #rest: Uint8Array = NOTHING;
  #reservation: Reservation | undefined;
  #entry: ReplyEntry | undefined;
  #received: ReceivedReply | undefined;
  #parts = 0;
  readonly #endings: Uint8Array[] = [];
  #isOver = false;

  constructor(host: ArrivalHost) {
    this.#host = host;
  }

  /** @throws {ProtocolError} `bad_message`, `bad_varint`, the bounds of the log. */
  push(bytes: Uint8Array): void {
    if (this.#isOver) throw malformed();
    const joined = new Uint8Array(this.#rest.length + bytes.length);
    joined.set(this.#rest);
    joined.set(bytes, this.#rest.length);
    const reader = new ByteReader(joined);
    let taken = 0;
    for (let length = lengthAt(reader); length !== undefined; length = lengthAt(reader)) {
      if (length > reader.remaining) {
        this.#expect(length);
        break;
      }
      this.#release();
      this.#take(reader.take(length, 'an item'));
      taken = reader.offset;
    }
    this.#rest = joined.slice(taken);
  }

  /** @throws {ProtocolError} `reply_too_large`, `over_budget`. */
  #expect(length: number): void {
    if (length > this.#host.maxItem)
      throw new ProtocolError('reply_too_large', 'a part of the reply is larger than this node allows');
    this.#reservation ??= this.#host.reserve(length);
  }

  #release(): void {
    this.#reservation?.release();
    this.#reservation = undefined;
  }

  async finish(): Promise<void> {
    const entry = this.#entry;
    const isWhole = entry?.end !== undefined && this.#endings.length === ENDINGS && this.#rest.length === 0;
    if (this.#isOver || !isWhole || entry?.end === undefined) throw malformed();
    this.#isOver = true;
    const received = this.#received;
    // It has come before, and its former node does not know that.
    if (received === undefined) return await this.#host.announce(entry);
    const [failure, metadata] = this.#endings as [Uint8Array, Uint8Array];
    try {
      received.end({
        at: entry.end.at,
        failure: entry.end.failure === undefined ? undefined : failure,
        metadata: metadata.length === 0 ? undefined : metadata,
      });
      await this.#host.announce(entry);
    } catch (error) {
      received.drop();
      throw error;
    }
    received.publish();
    this.#host.onTaken(entry);
  }

  abandon(): void {
    this.#release();
    if (this.#isOver) return;
    this.#isOver = true;
    this.#received?.drop();
  }

  /** @throws {ProtocolError} */
  #take(item: Uint8Array): void {
    const entry = this.#entry;
    if (entry === undefined) {
      this.#entry = this.#host.readEntry(item);
      this.#received = this.#host.begin(this.#entry);
    } else if (this.#parts < entry.parts) {
      this.#parts++;
      this.#received?.append(item);
    } else if (this.#endings.length < ENDINGS) this.#endings.push(item.slice());
    else throw malformed();
  }
}

/** `undefined` if the length itself is not whole. @throws {ProtocolError} `bad_varint`. */
function lengthAt(reader: ByteReader): number | undefined {
  const { bytes, offset } = reader;
  const end = bytes.subarray(offset, offset + LONGEST_LENGTH).findIndex((byte) => byte < 0x80);
  if (end < 0) {
    if (bytes.length - offset >= LONGEST_LENGTH) throw malformed();
    return undefined;
  }
  return reader.varint('the length of an item');
}

function malformed(): ProtocolError {
  return new ProtocolError('bad_message', 'a reply that another node hands over is malformed');
}
