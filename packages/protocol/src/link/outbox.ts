import { BODY_CHARGE, type SendCredit } from './credit.js';
import { bodyHeadLength, encodeBodyFrame, type OutgoingBody } from './header.js';

/**
 * What waits to be written, and in which order: control first, then streams in turn, each one frame
 * at a time, large bodies in fragments, so that nothing waits behind a tensor. Order is kept within a
 * stream, not between streams.
 *
 * The driver pulls one frame whenever the socket has room, so a frame is built no earlier than it is
 * written. A stream without credit for its next frame is passed over until its peer grants more.
 */

/** Largest piece of a body in one frame, in bytes. */
export const MAX_FRAGMENT_SIZE = 64 * 1024;

/** A ready frame that keeps its place behind the bodies of its stream: end, error. */
interface ReadyFrame {
  readonly frame: Uint8Array;
}

type Item = OutgoingBody | ReadyFrame;

interface Lane {
  readonly streamId: number;
  readonly items: Item[];
  /** Index of the first item that is not written; the array is compacted now and then. */
  head: number;
  /** Bytes of the first item that are written. */
  offset: number;
  /** Something of this lane was written. */
  begun: boolean;
  /** Waits for credit and is not in turn. */
  blocked: boolean;
  queuedBytes: number;
}

export interface Outbox {
  /** What the peer takes; without it nothing is held back. */
  credit: SendCredit | undefined;
  /** Everything of a stream that waited is written. */
  onDrained: ((streamId: number) => void) | undefined;
  /** Bytes that wait, control frames excluded. */
  readonly queuedBytes: number;
  /** Counted link frames handed out since the session began. */
  readonly framesWritten: number;
  /** Nothing waits but for credit. */
  readonly isIdle: boolean;
  /** Streams that wait for credit. */
  readonly blockedStreams: number;
  /** A frame outside every stream, written before all others. */
  pushControl(frame: Uint8Array | string): void;
  /** A counted frame outside every stream, such as cancel. */
  pushSignal(frame: Uint8Array): void;
  pushBody(body: OutgoingBody): void;
  /** A frame behind all bodies of its stream. */
  pushBehind(streamId: number, frame: Uint8Array): void;
  /** Forgets what a stream has not written yet; `false` where nothing of it was ever written. */
  drop(streamId: number): boolean;
  /** Whether anything of `streamId` waits. */
  has(streamId: number): boolean;
  /** Bytes of `streamId` that wait. */
  queuedOn(streamId: number): number;
  /** The peer grants `streamId` more. */
  unblock(streamId: number): void;
  /** Forgets everything that waits, control frames excluded. */
  clear(): void;
  /** The next frame for the socket. */
  next(): Uint8Array | string | undefined;
}

export function createOutbox(): Outbox {
  return new LaneOutbox();
}

class LaneOutbox implements Outbox {
  queuedBytes = 0;
  framesWritten = 0;
  blockedStreams = 0;
  credit: SendCredit | undefined;
  onDrained: ((streamId: number) => void) | undefined;
  readonly #control: { frame: Uint8Array | string; counted: boolean }[] = [];
  readonly #lanes = new Map<number, Lane>();
  /** Lanes with something to write, in order of turn. */
  #turns: Lane[] = [];

  get isIdle(): boolean {
    return this.#control.length === 0 && this.#turns.length === 0;
  }

  pushControl(frame: Uint8Array | string): void {
    this.#control.push({ frame, counted: false });
  }

  pushSignal(frame: Uint8Array): void {
    this.#control.push({ frame, counted: true });
  }

  pushBody(body: OutgoingBody): void {
    this.#push(body.streamId, body, body.bytes.length);
  }

  pushBehind(streamId: number, frame: Uint8Array): void {
    this.#push(streamId, { frame }, frame.length);
  }

  has(streamId: number): boolean {
    return this.#lanes.has(streamId);
  }

  queuedOn(streamId: number): number {
    return this.#lanes.get(streamId)?.queuedBytes ?? 0;
  }

  drop(streamId: number): boolean {
    const lane = this.#lanes.get(streamId);
    if (lane === undefined) return true;
    this.queuedBytes -= lane.queuedBytes;
    this.#lanes.delete(streamId);
    if (lane.blocked) this.blockedStreams--;
    else this.#turns = this.#turns.filter((other) => other !== lane);
    return lane.begun;
  }

  unblock(streamId: number): void {
    const lane = this.#lanes.get(streamId);
    if (lane === undefined || !lane.blocked) return;
    lane.blocked = false;
    this.blockedStreams--;
    this.#turns.push(lane);
  }

  clear(): void {
    this.#lanes.clear();
    this.#turns = [];
    this.queuedBytes = 0;
    this.blockedStreams = 0;
  }

  next(): Uint8Array | string | undefined {
    const control = this.#control.shift();
    if (control !== undefined) {
      if (control.counted) this.framesWritten++;
      return control.frame;
    }
    for (let lane = this.#turns[0]; lane !== undefined; lane = this.#turns[0]) {
      const frame = this.#write(lane);
      if (frame === undefined) {
        lane.blocked = true;
        this.blockedStreams++;
        this.#turns.shift();
        continue;
      }
      this.framesWritten++;
      lane.begun = true;
      if (lane.head === lane.items.length) {
        this.#turns.shift();
        this.#lanes.delete(lane.streamId);
        this.onDrained?.(lane.streamId);
      } else if (this.#turns.length > 1) {
        this.#turns.push(this.#turns.shift() as Lane);
      }
      return frame;
    }
    return undefined;
  }

  /** The next frame of a lane, `undefined` where it has no credit for any. */
  #write(lane: Lane): Uint8Array | undefined {
    const item = lane.items[lane.head] as Item;
    if ('frame' in item) {
      this.#dequeue(lane, item.frame.length);
      this.#advance(lane);
      return item.frame;
    }
    const { bytes, streamId } = item;
    const start = lane.offset;
    let end = Math.min(bytes.length, start + MAX_FRAGMENT_SIZE);
    if (this.credit !== undefined) {
      const head = start === 0 ? bodyHeadLength(item) + BODY_CHARGE : 0;
      const room = this.credit.available(streamId) - head;
      if (room < Math.min(1, end - start)) return undefined;
      end = Math.min(end, start + room);
      this.credit.spend(streamId, head + end - start);
    }
    this.#dequeue(lane, end - start);
    lane.offset = end;
    const frame = encodeBodyFrame(item, start, end);
    if (end === bytes.length) {
      lane.offset = 0;
      this.#advance(lane);
    }
    return frame;
  }

  #push(streamId: number, item: Item, size: number): void {
    this.queuedBytes += size;
    let lane = this.#lanes.get(streamId);
    if (lane === undefined) {
      lane = { streamId, items: [], head: 0, offset: 0, begun: false, blocked: false, queuedBytes: 0 };
      this.#lanes.set(streamId, lane);
      this.#turns.push(lane);
    }
    lane.queuedBytes += size;
    lane.items.push(item);
  }

  #dequeue(lane: Lane, size: number): void {
    lane.queuedBytes -= size;
    this.queuedBytes -= size;
  }

  #advance(lane: Lane): void {
    lane.head++;
    // Shifting a long array at every frame would be quadratic.
    if (lane.head >= 64 && lane.head * 2 >= lane.items.length) {
      lane.items.splice(0, lane.head);
      lane.head = 0;
    }
  }
}
