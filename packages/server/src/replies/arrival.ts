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
  /** The bytes of a length that is not whole. */
  #rest: Uint8Array = NOTHING;
  /** An item that is not whole, how much of it has come, and memory for it. */
  #item: Uint8Array | undefined;
  #filled = 0;
  #reservation: Reservation | undefined;
  /** Memory of the endings, which wait for the rest. */
  readonly #kept: Reservation[] = [];
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
    // Not a Buffer, whose `slice` is a view.
    let left = this.#fill(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length));
    if (left.length === 0) return;
    if (this.#rest.length > 0) left = joined(this.#rest, left);
    const reader = new ByteReader(left);
    let taken = 0;
    for (let length = lengthAt(reader); length !== undefined; length = lengthAt(reader)) {
      if (length > reader.remaining) {
        this.#begin(length);
        this.#fill(reader.take(reader.remaining, 'an item'));
        this.#rest = NOTHING;
        return;
      }
      this.#take(reader.take(length, 'an item'), undefined);
      taken = reader.offset;
    }
    this.#rest = left.slice(taken);
  }

  /** @returns what does not belong to the item that is not whole. @throws {ProtocolError} */
  #fill(bytes: Uint8Array): Uint8Array {
    const item = this.#item;
    if (item === undefined) return bytes;
    const part = bytes.subarray(0, item.length - this.#filled);
    item.set(part, this.#filled);
    this.#filled += part.length;
    if (this.#filled < item.length) return NOTHING;
    const reservation = this.#reservation;
    this.#item = undefined;
    this.#reservation = undefined;
    this.#take(item, reservation);
    return bytes.subarray(part.length);
  }

  /** @throws {ProtocolError} `reply_too_large`, `over_budget`. */
  #begin(length: number): void {
    if (length > this.#host.maxItem)
      throw new ProtocolError('reply_too_large', 'a part of the reply is larger than this node allows');
    this.#reservation = this.#host.reserve(length);
    this.#item = new Uint8Array(length);
    this.#filled = 0;
  }

  #release(): void {
    this.#reservation?.release();
    this.#reservation = undefined;
    this.#item = undefined;
    for (const reservation of this.#kept.splice(0)) reservation.release();
  }

  async finish(): Promise<void> {
    await this.#finish().finally(() => this.#release());
  }

  async #finish(): Promise<void> {
    const entry = this.#entry;
    const isWhole = entry?.end !== undefined && this.#endings.length === ENDINGS && !this.#isWithinItem;
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

  get #isWithinItem(): boolean {
    return this.#item !== undefined || this.#rest.length > 0;
  }

  abandon(): void {
    this.#release();
    if (this.#isOver) return;
    this.#isOver = true;
    this.#received?.drop();
  }

  /**
   * @param reservation the memory of an item that has come in several pieces.
   * @throws {ProtocolError}
   */
  #take(item: Uint8Array, reservation: Reservation | undefined): void {
    const entry = this.#entry;
    if (entry !== undefined && this.#parts >= entry.parts && this.#endings.length < ENDINGS) {
      if (reservation !== undefined) this.#kept.push(reservation);
      this.#endings.push(item.slice());
      return;
    }
    reservation?.release();
    if (entry === undefined) {
      this.#entry = this.#host.readEntry(item);
      this.#received = this.#host.begin(this.#entry);
    } else if (this.#parts < entry.parts) {
      this.#parts++;
      this.#received?.append(item);
    } else throw malformed();
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(first.length + second.length);
  bytes.set(first);
  bytes.set(second, first.length);
  return bytes;
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
