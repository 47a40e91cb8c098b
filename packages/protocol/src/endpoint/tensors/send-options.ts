import { assertOptions, type OptionKinds } from '../../base/options.js';
import type { SendTensorOptions } from '../session.js';

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
