import type { BodyWriterParts } from './body-writer.js';

/** The link as its outbox sees it. */

export interface OutboxListener {
  /** Everything queued on the stream is written. */
  handleDrained(streamId: number): void;
}

export interface OutboxParts extends BodyWriterParts {
  readonly listener?: OutboxListener | undefined;
  /**
   * Bytes of memory for frames that await confirmation. Beyond it nothing more is written: a peer that reads
   * and never acknowledges would make this end keep everything. @default Infinity
   */
  readonly maxRetained?: number | undefined;
}
