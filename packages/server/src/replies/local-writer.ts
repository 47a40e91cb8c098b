import type { LocalReplies } from '../engine/logs/local.js';
import type { EngineBounds } from '../engine/logs/logs.js';
import type { ReplyEnd } from '../engine/logs/reply.js';
import type { EngineWriterOptions } from './engine-writer.js';
import { batchOf, type Writer } from './writer.js';

/** Writes one reply to the memory of this process, at once. */
export class LocalWriter implements Writer {
  readonly head: Writer['head'];
  isOver = false;
  readonly #local: LocalReplies;
  readonly #bounds: EngineBounds;
  readonly #onWritten: EngineWriterOptions['onWritten'];
  #parts: number;

  /** @throws {ProtocolError} `too_many_replies`, `over_budget`, `reply_too_large`. */
  constructor(
    local: LocalReplies,
    { head, bounds, from, onWritten }: Pick<EngineWriterOptions, 'head' | 'bounds' | 'from' | 'onWritten'>,
  ) {
    local.open(head, bounds, Number.POSITIVE_INFINITY);
    this.head = head;
    this.#local = local;
    this.#bounds = bounds;
    this.#onWritten = onWritten;
    this.#parts = from?.parts ?? 0;
  }

  get overSince(): number {
    return 0;
  }
  get hasFailed(): boolean {
    return false;
  }
  /** The memory of the reply counts with the others there. */
  get bytes(): number {
    return 0;
  }

  append(record: Uint8Array): undefined {
    if (this.isOver) return;
    this.#local.append(batchOf(this.head, this.#parts, 0, [record]), this.#bounds);
    this.#onWritten(this.#parts++, [record]);
  }

  read(): undefined {}

  end(end: ReplyEnd): undefined {
    if (this.isOver) return;
    const { head } = this;
    this.#local.end({ ...head, parts: undefined, by: head.by ?? '', end }, this.#bounds);
    this.leave();
  }

  drop(): undefined {
    this.#local.drop(this.head);
    this.leave();
  }

  leave(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#onWritten(this.#parts, undefined);
  }

  async keep(): Promise<number> {
    return Number.POSITIVE_INFINITY;
  }
}
