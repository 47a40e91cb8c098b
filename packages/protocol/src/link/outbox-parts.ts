import type { Fifo } from '../base/fifo.js';
import type { Acknowledgement } from './acknowledgement.js';
import type { BodyWriter, BodyWriterParts } from './body-writer.js';
import type { WrittenFrames } from './replay.js';
import type { ControlQueue, SendQueue } from './send-queue.js';

/** The link as its outbox sees it. */

export interface OutboxListener {
  /** Everything queued on the stream is written. */
  handleDrained(streamId: number): void;
}

export interface OutboxParts extends BodyWriterParts {
  readonly listener?: OutboxListener | undefined;
  /** Is notified that a counted frame waits to be written, and may put its own frame before it. */
  readonly acknowledgement?: Pick<Acknowledgement, 'handleWriting'> | undefined;
  /**
   * Bytes of memory for frames that await confirmation. Beyond it nothing more is written: a peer that reads
   * and never acknowledges would make this end keep everything. @default Infinity
   */
  readonly maxRetained?: number | undefined;
}

/** Everything that holds state of an outbox. */
export interface OutboxState {
  readonly queues: readonly SendQueue[];
  /** Those of them that can write a frame, in order of turn. */
  readonly ready: Fifo<SendQueue>;
  readonly control: ControlQueue;
  readonly written: WrittenFrames;
  readonly writer: BodyWriter;
}
