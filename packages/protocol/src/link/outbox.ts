import { encodeBodyFrame, type OutgoingBody } from './header.js';

/**
 * What waits to be written, and in which order: control first, then streams in turn, each one frame
 * at a time, large bodies in fragments, so that nothing waits behind a tensor. Order is kept within a
 * stream, not between streams.
 *
 * The driver pulls one frame whenever the socket has room, so a frame is built no earlier than it is
 * written.
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
}

export interface Outbox {
  /** Bytes that wait, control frames excluded. */
  readonly queuedBytes: number;
  /** Counted link frames handed out since the session began. */
  readonly framesWritten: number;
  readonly isEmpty: boolean;
  /** A frame outside every stream, written before all others. */
  pushControl(frame: Uint8Array | string): void;
  /** A counted frame outside every stream, such as cancel. */
  pushSignal(frame: Uint8Array): void;
  pushBody(body: OutgoingBody): void;
  /** A frame behind all bodies of its stream. */
  pushBehind(streamId: number, frame: Uint8Array): void;
  /** Forgets what a stream has not written yet; `false` where nothing of it was ever written. */
  drop(streamId: number): boolean;
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
  readonly #control: { frame: Uint8Array | string; counted: boolean }[] = [];
  readonly #lanes = new Map<number, Lane>();
  /** Lanes with something to write, in order of turn. */
  #turns: Lane[] = [];

  get isEmpty(): boolean {
    return this.#control.length === 0 && this.#turns.length === 0;
  }

  pushControl(frame: Uint8Array | string): void {
    this.#control.push({ frame, counted: false });
  }

  pushSignal(frame: Uint8Array): void {
    this.#control.push({ frame, counted: true });
  }

  pushBody(body: OutgoingBody): void {
    this.queuedBytes += body.bytes.length;
    this.#push(body.streamId, body);
  }

  pushBehind(streamId: number, frame: Uint8Array): void {
    this.queuedBytes += frame.length;
    this.#push(streamId, { frame });
  }

  drop(streamId: number): boolean {
    const lane = this.#lanes.get(streamId);
    if (lane === undefined) return true;
    for (let i = lane.head; i < lane.items.length; i++) {
      this.queuedBytes -= itemSize(lane.items[i] as Item) - (i === lane.head ? lane.offset : 0);
    }
    this.#lanes.delete(streamId);
    this.#turns = this.#turns.filter((other) => other !== lane);
    return lane.begun;
  }

  clear(): void {
    this.#lanes.clear();
    this.#turns = [];
    this.queuedBytes = 0;
  }

  next(): Uint8Array | string | undefined {
    const control = this.#control.shift();
    if (control !== undefined) {
      if (control.counted) this.framesWritten++;
      return control.frame;
    }
    const lane = this.#turns[0];
    if (lane === undefined) return undefined;
    const item = lane.items[lane.head] as Item;
    this.framesWritten++;
    lane.begun = true;

    let frame: Uint8Array;
    let finished = true;
    if ('frame' in item) {
      frame = item.frame;
      this.queuedBytes -= frame.length;
    } else {
      const start = lane.offset;
      const end = Math.min(item.bytes.length, start + MAX_FRAGMENT_SIZE);
      frame = encodeBodyFrame(item, start, end);
      this.queuedBytes -= end - start;
      finished = end === item.bytes.length;
      lane.offset = finished ? 0 : end;
    }
    if (finished) this.#advance(lane);
    if (lane.head === lane.items.length) {
      this.#turns.shift();
      this.#lanes.delete(lane.streamId);
    } else if (this.#turns.length > 1) {
      this.#turns.push(this.#turns.shift() as Lane);
    }
    return frame;
  }

  #push(streamId: number, item: Item): void {
    let lane = this.#lanes.get(streamId);
    if (lane === undefined) {
      lane = { streamId, items: [], head: 0, offset: 0, begun: false };
      this.#lanes.set(streamId, lane);
      this.#turns.push(lane);
    }
    lane.items.push(item);
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

function itemSize(item: Item): number {
  return 'frame' in item ? item.frame.length : item.bytes.length;
}
