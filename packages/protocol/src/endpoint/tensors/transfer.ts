import type { AvpHead } from '../../codec/avp/head.js';
import type { TransferReader } from '../../codec/avp/transfer.js';
import type { TensorMessage } from './message.js';

/** Takes the body of a tensor whose head is known. */
export interface TransferSink {
  /** @param charge credit that the bytes used up. */
  take(bytes: Uint8Array, charge: number): void;
  /** The body is complete. @throws {ProtocolError} if the tensor is invalid. */
  finish(): void;
  /** The transfer was cancelled, refused or lost. */
  end(error: Error): void;
}

/** One transfer as its sink sees it. */
export interface Transfer {
  readonly head: AvpHead;
  readonly reader: TransferReader;
  /** The name of the sender; `undefined` if the peer itself sends it. */
  readonly from: string | undefined;
  /** Passes the tensor to the application when it was scanned, unless the transfer has ended before. */
  deliver(message: TensorMessage, delivered?: () => void): void;
  /** Returns the credit of bytes that were taken. */
  consume(charge: number): void;
  /** Confirms the verified tensor to the sender. */
  accept(): void;
  refuse(error: unknown): void;
}
