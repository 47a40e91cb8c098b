import type { ProtocolError } from '../../base/errors.js';
import type { Limits } from '../../base/limits.js';
import { plainBody } from '../../codec/body.js';
import type { BodyPiece } from '../../link/reassembly.js';
import type { SessionCore } from '../../session/types.js';
import type { SendTensorOptions } from '../session.js';
import type { TensorMessage } from './message.js';
import { TensorReceiver, type TensorReceiverOptions, type TransferMode } from './receiver.js';
import { TensorSender, type TensorSenderOptions } from './sender.js';
import type { TensorInput } from './tensor.js';

export interface TensorsOptions extends Omit<TensorSenderOptions, 'requester'> {
  readonly core: SessionCore;
  readonly limits: Limits;
  readonly memory: TensorReceiverOptions['memory'];
  readonly now: TensorReceiverOptions['now'];
  readonly maxAssembledSize: number;
  readonly mode: TransferMode;
  /** Made when the first tensor is sent. @throws {ProtocolError} `session_closed`. */
  readonly requester: () => TensorSenderOptions['requester'];
  /** Looks at a tensor first, and calls `deliver` where it may go on. */
  readonly admit: (message: TensorMessage, deliver: () => void) => void;
  readonly deliver: (message: TensorMessage) => void;
}

/** The tensors of one session, in both directions. */
export class Tensors {
  readonly #options: TensorsOptions;
  #receiver: TensorReceiver | undefined;

  constructor(options: TensorsOptions) {
    this.#options = options;
  }

  /** See `Session.sendTensor`; `agent` is whom it is for, where that is not the other end. */
  async send(tensor: TensorInput, agent: string | undefined, options: SendTensorOptions): Promise<void> {
    const sender = new TensorSender({ ...this.#options, requester: this.#options.requester() });
    await sender.send(tensor, agent, options);
  }

  handlePiece(streamId: number, piece: BodyPiece): void {
    this.#receiver ??= this.#createReceiver();
    this.#receiver.handlePiece(streamId, piece);
  }

  /** The sender gives up. */
  handleCancel(streamId: number): void {
    this.#receiver?.handleCancel(streamId);
  }

  /** The session is over. */
  end(error: ProtocolError): void {
    this.#receiver?.end(error);
  }

  #createReceiver(): TensorReceiver {
    const { core, pump, ...options } = this.#options;
    return new TensorReceiver({
      ...options,
      consume(streamId, charge) {
        if (core.channel.consume(streamId, charge)) pump();
      },
      accept(streamId) {
        core.channel.respond(streamId, plainBody(new Uint8Array(0)));
        pump();
      },
      refuse(streamId, error) {
        core.channel.refuse(streamId, error);
        pump();
      },
    });
  }
}
