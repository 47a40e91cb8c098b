import { Fifo } from '../base/fifo.js';
import { BodyCodec, type CodedBody } from '../codec/body.js';
import { LinkKind, type OutgoingBody } from './frame.js';
import type { StreamedBody } from './streamed-body.js';

/** A frame that is written after the bodies of its stream: end, error. */
export interface SignalFrame {
  readonly frame: Uint8Array;
}

/** A message in a session without a link: a WebSocket message of its own, not counted and never replayed. */
export interface PlainFrame {
  readonly bare: Uint8Array | string;
  readonly body: Pick<CodedBody, 'codec' | 'bytes' | 'originalLength'> &
    Pick<OutgoingBody, 'onWritten' | 'onDropped'>;
}

/** Something that the application has sent. */
export type UnwrittenBody = OutgoingBody | StreamedBody | PlainFrame;

export type QueueItem = UnwrittenBody | SignalFrame;

/** Whether the bytes of an item are fed while it is written. */
export const isStreamed = (item: QueueItem): item is StreamedBody => 'waiting' in item;

/** The totals of the queues of all streams. */
export interface QueueTotals {
  queuedBytes: number;
  queuedItems: number;
}

/** The bodies and frames queued on one stream, in the order in which they are written. */
export class SendQueue {
  readonly streamId: number;
  readonly #totals: QueueTotals;
  /** Written bytes of the first item. */
  offset = 0;
  /** Something on this stream was written. */
  started = false;
  /** Waits for credit, and so for no turn. */
  blocked = false;
  /** Waits for more bytes of its streamed body, and so for no turn. */
  awaitingSource = false;
  queuedBytes = 0;
  /** Everything that is queued, in order. */
  readonly items = new Fifo<QueueItem>();

  constructor(streamId: number, totals: QueueTotals) {
    this.streamId = streamId;
    this.#totals = totals;
  }

  get isEmpty(): boolean {
    return this.items.size === 0;
  }

  /** Queued bodies and frames. */
  get size(): number {
    return this.items.size;
  }

  /** The item that is written next. The queue must not be empty. */
  get first(): QueueItem {
    return this.items.first as QueueItem;
  }

  /** The streamed body that is being fed: always the last item. */
  get streamed(): StreamedBody | undefined {
    const { last } = this.items;
    return last !== undefined && isStreamed(last) ? last : undefined;
  }

  /** Whether the next frame begins a message, request or transfer. */
  get beginsMessage(): boolean {
    const item = this.first;
    if ('bare' in item) return true;
    if ('frame' in item) return false;
    return this.offset === 0 && (item.kind === LinkKind.MESSAGE || item.kind === LinkKind.REQUEST);
  }

  /** Bodies that are not completely written. */
  unwritten(): UnwrittenBody[] {
    return [...this.items].filter((item): item is UnwrittenBody => !('frame' in item));
  }

  push(item: QueueItem, size: number): void {
    this.items.push(item);
    this.#totals.queuedItems++;
    this.resize(size);
  }

  /** Counts `by` more queued bytes; a negative number if bytes were written. */
  resize(by: number): void {
    this.queuedBytes += by;
    this.#totals.queuedBytes += by;
  }

  replaceFirst(item: QueueItem): void {
    this.items.replaceFirst(item);
  }

  /** Removes the first item, which is completely written. */
  shift(): void {
    this.offset = 0;
    this.items.shift();
    this.#totals.queuedItems--;
  }

  /** Removes the body with this `onDropped`, unless some of it is written or coded. Returns whether it did. */
  remove(onDropped: () => void): boolean {
    for (const item of this.items) {
      if ('frame' in item || isStreamed(item)) continue;
      if (('bare' in item ? item.body : item).onDropped !== onDropped) continue;
      // The context of a coded body counts on it.
      const isBegun =
        item === this.first && (this.offset > 0 || ('codec' in item && item.codec === BodyCodec.CONTEXT));
      if (isBegun) return false;
      this.items.delete(item);
      this.#totals.queuedItems--;
      this.resize(-('bare' in item ? item.bare : item.bytes).length);
      return true;
    }
    return false;
  }

  /** Takes everything that is queued off the totals: the queue is dropped. */
  discount(): void {
    this.#totals.queuedBytes -= this.queuedBytes;
    this.#totals.queuedItems -= this.size;
  }
}

/** A frame outside every stream. */
export interface ControlFrame {
  readonly frame: Uint8Array | string;
  readonly counted: boolean;
}

/** Frames that are written ahead of all streams; counted ones only after the frames that are replayed. */
export class ControlQueue {
  /** `undefined` while empty: arrays never shrink, and most sessions are idle. */
  frames: ControlFrame[] | undefined;

  get size(): number {
    return this.frames?.length ?? 0;
  }

  push(frame: Uint8Array | string, counted: boolean): void {
    this.frames ??= [];
    this.frames.push({ frame, counted });
  }

  /** @param holdsCounted whether counted frames have to wait. */
  shift(holdsCounted: boolean): ControlFrame | undefined {
    const frames = this.frames;
    if (frames === undefined) return undefined;
    const index = holdsCounted ? frames.findIndex(({ counted }) => !counted) : 0;
    if (index < 0) return undefined;
    const next = index === 0 ? frames.shift() : frames.splice(index, 1)[0];
    if (frames.length === 0) this.frames = undefined;
    return next;
  }

  /** Forgets the counted frames, which belong to a link, or those that are sent again after a resume. */
  drop(counted: boolean): void {
    this.frames = this.frames?.filter((each) => each.counted !== counted);
  }
}
