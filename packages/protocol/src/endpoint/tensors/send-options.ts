import { assertOptions, type OptionKinds } from '../../base/options.js';
import type { TensorInput } from './tensor.js';

export interface SendTensorOptions {
  /** Cancels the transfer, also halfway; the call rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
  /** Client: the receiving agent, by its ID or its address in `agents()`. @default the server itself */
  readonly to?: string | undefined;
  /**
   * Called after each piece was sent, with the bytes of data so far and in all. Cancels the transfer if it
   * throws.
   */
  readonly onProgress?: ((bytes: number, total: number) => void) | undefined;
  /**
   * The content of the text message that is sent instead if `negotiated.avp.mode` is `json`: the model of the
   * peer cannot use the tensor. A function is called only then.
   *
   * @default the call throws `unsupported`
   */
  readonly fallback?: string | (() => string | Promise<string>) | undefined;
}

declare module '../session.js' {
  interface Session {
    /**
     * Sends a tensor. Resolves when the peer has verified all of it, or, with `transfers: 'stream'` at the
     * peer, when its application has read all of it. Only a few pieces are sent ahead of the peer. After a lost
     * connection, the transfer continues where it stopped.
     *
     * @throws {ProtocolError} `bad_tensor` if data, shape and dtype do not match, or if generated data is
     * longer or shorter than stated; `transfer_too_large` before anything is sent; `cancelled` if the receiver
     * refuses the rest; errors found by the receiver, with `side` 'remote'; `unsupported`; `session_closed`;
     * `session_lost`; errors of the source.
     */
    sendTensor(tensor: TensorInput, options?: SendTensorOptions): Promise<void>;
  }
}

const SEND_TENSOR: OptionKinds<SendTensorOptions> = {
  signal: 'signal',
  to: 'text',
  onProgress: 'function',
  fallback: ['text', 'function'],
};

/** @throws {ProtocolError} `invalid_option`. */
export function assertSendTensorOptions(options: SendTensorOptions): void {
  assertOptions(options, SEND_TENSOR);
}
