import type { AvpHead } from '../../codec/avp/head.js';
import type { TransferReader } from '../../codec/avp/transfer.js';
import type { TensorMessage } from './message.js';

/** What becomes of a tensor whose head is known. */
export interface TransferSink {
  /** The next bytes of the body, and what they were charged. */
  take(bytes: Uint8Array, charge: number): void;
  /** That was all. @throws {ProtocolError} what is wrong with it. */
  finish(): void;
  /** There will be no more of it. */
  end(error: Error): void;
}

/** One transfer as its sink sees it. */
export interface Transfer {
  readonly head: AvpHead;
  readonly reader: TransferReader;
  /** The agent that sends it. */
  readonly from: string | undefined;
  /** Hands the tensor to the application, unless it is given up before that may be. */
  deliver(message: TensorMessage, delivered?: () => void): void;
  /** What bytes were charged is taken. */
  consume(charge: number): void;
  /** The tensor is verified, and its sender is told. */
  accept(): void;
  refuse(error: unknown): void;
}
