import { SELF, workAsTheyAre } from '../../base/as-they-are.js';
import { ProtocolError } from '../../base/errors.js';
import type { Reservation } from '../../base/memory.js';
import { present, showAs } from '../../base/shown.js';
import { decodeUtf8 } from '../../base/text.js';
import type { SecurityStatus } from '../../codec/body.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import type { ReceivedTensor } from './tensor.js';

export interface TensorMessageOptions {
  readonly tensor: ReceivedTensor;
  /** The name of the sender; `undefined` if the peer itself sent it. */
  readonly from: string | undefined;
  readonly codedLength: number;
  /** Memory of the tensor, until the application is done with it. */
  readonly reservation?: Reservation | undefined;
}

/** A message that is a tensor. */
export class TensorMessage implements Message {
  readonly [SELF] = this;
  readonly algorithm = 'AVP';
  readonly tokens = undefined;
  readonly header = undefined;
  readonly metadata: Metadata = NO_METADATA;
  securityStatus: SecurityStatus | undefined;
  readonly tensor: ReceivedTensor;
  readonly from: string | undefined;
  readonly codedLength: number;
  readonly #reservation: Reservation | undefined;
  readonly number = undefined;

  constructor({ tensor, from, codedLength, reservation }: TensorMessageOptions) {
    this.tensor = tensor;
    this.from = from;
    this.codedLength = codedLength;
    this.#reservation = reservation;
  }

  /** The credit of its stream was returned already. */
  get charge(): number {
    return 0;
  }
  get owner(): undefined {
    return undefined;
  }

  /** The application is done with it. */
  release(): void {
    this.#reservation?.release();
  }

  get bytes(): Uint8Array {
    const { data } = this.tensor;
    if (data !== undefined) return data;
    throw new ProtocolError('unsupported', 'this tensor is streamed: read `tensor.chunks`');
  }

  get text(): string {
    return decodeUtf8(this.bytes);
  }

  json<T = unknown>(): T {
    throw new ProtocolError('unsupported', 'a tensor is not JSON');
  }
}

const NO_METADATA: Metadata = Object.freeze({});

showAs(TensorMessage, 'Message', ({ algorithm, from, tensor: { shape, dtype } }) =>
  present({ algorithm, from, dtype, shape }),
);
workAsTheyAre(TensorMessage);
