import { ByteWriter } from '../base/bytes.js';
import { encodeSignalFrame, LinkKind } from './frame.js';
import type { Outbox } from './outbox.js';

/** Writes what a receiver states about what it has received. */
export class Statements {
  readonly #outbox: Pick<Outbox, 'pushStatement'>;

  constructor(outbox: Pick<Outbox, 'pushStatement'>) {
    this.#outbox = outbox;
  }

  /** `count` counted frames have arrived since the session began. */
  acknowledge(count: number): void {
    this.#outbox.pushStatement(encodeSignalFrame(LinkKind.ACK, count));
  }

  /** `streamId` may carry `limit` bytes, in charges, since it began. */
  grant(streamId: number, limit: number): void {
    const rest = new ByteWriter(8).varint(limit).finish();
    this.#outbox.pushStatement(encodeSignalFrame(LinkKind.CREDIT, streamId, rest));
  }
}
