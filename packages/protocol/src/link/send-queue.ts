import { Fifo } from '../base/fifo.js';
import type { CodedBody } from '../codec/body.js';
import { LinkKind, type OutgoingBody } from './frame.js';
import { SourcedBody } from './streamed-body.js';

/** A frame that keeps its place behind the bodies of its stream: end, error. */
export interface ReadyFrame {
  readonly frame: Uint8Array | (() => Uint8Array);
  /** Bytes that it counts as while it waits. */
  readonly size: number;
}

/** A message that is a WebSocket message of its own, without a link: not counted and never replayed. */
export interface BareFrame {
  readonly bare: Uint8Array | string;
  readonly body: Pick<CodedBody, 'codec' | 'bytes' | 'originalLength'>;
}

/** What an application has sent. */
export type UnwrittenBody = OutgoingBody | SourcedBody | BareFrame;

export type LaneItem = UnwrittenBody | ReadyFrame;

/** What waits on one stream, in the order in which it is written. */
export class Lane {
  readonly streamId: number;
  /** Bytes of the first item that are written. */
  offset = 0;
  /** Something of this lane was written. */
  begun = false;
  /** Waits for credit and is not in turn. */
  blocked = false;
  /** Waits for its body's source and is not in turn. */
  starved = false;
  queuedBytes = 0;
  readonly #items = new Fifo<LaneItem>();

  constructor(streamId: number) {
    this.streamId = streamId;
  }

  get isEmpty(): boolean {
    return this.#items.size === 0;
  }

  /** Bodies and frames that wait. */
  get size(): number {
    return this.#items.size;
  }

  /** Of a lane that is not empty. */
  get first(): LaneItem {
    return this.#items.first as LaneItem;
  }

  /** The body at the end that is fed while it is written, where there is one. */
  get source(): SourcedBody | undefined {
    const { last } = this.#items;
    return last instanceof SourcedBody ? last : undefined;
  }

  /** Whether what is written next begins a message, request or transfer. */
  get beginsMessage(): boolean {
    const item = this.first;
    if ('bare' in item) return true;
    if ('frame' in item) return false;
    return this.offset === 0 && (item.kind === LinkKind.MESSAGE || item.kind === LinkKind.REQUEST);
  }

  /** Bodies that are not written to their end. */
  unwritten(): UnwrittenBody[] {
    return [...this.#items].filter((item): item is UnwrittenBody => !('frame' in item));
  }

  push(item: LaneItem): void {
    this.#items.push(item);
  }

  /** The first item as it is from now on. */
  replaceFirst(item: LaneItem): void {
    this.#items.replaceFirst(item);
  }

  /** The first item is written to its end. */
  advance(): void {
    this.offset = 0;
    this.#items.shift();
  }
}
