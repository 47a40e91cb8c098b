import { ProtocolError } from '../../base/errors.js';
import { assertOptions } from '../../base/options.js';

/**
 * Joins the parts of a reply into batches: fewer and larger frames at the price of a short delay. Texts are
 * joined with texts, token IDs with token IDs; JSON and bytes are always sent by themselves.
 */
export interface BatchOptions {
  /** Milliseconds that the first part of a batch waits for more, from 0 to 10,000. @default 10 */
  readonly ms?: number | undefined;
  /**
   * A batch is sent at once when it holds this many bytes of UTF-8 text or of encoded token IDs.
   *
   * @default 4096
   */
  readonly bytes?: number | undefined;
}

export interface ResolvedBatchOptions {
  readonly ms: number;
  readonly bytes: number;
}

const DEFAULTS: ResolvedBatchOptions = { ms: 10, bytes: 4096 };
const MAX_MS = 10_000;

/** @throws {ProtocolError} `invalid_option`. */
export function resolveBatchOptions(options: BatchOptions | undefined): ResolvedBatchOptions | undefined {
  if (options === undefined) return undefined;
  assertOptions(options, { ms: 'number', bytes: 'number' }, 'batch');
  const { ms = DEFAULTS.ms, bytes = DEFAULTS.bytes } = options;
  const fault = (name: string, expected: string, value: unknown) =>
    new ProtocolError('invalid_option', `batch.${name}: expected ${expected}, not ${String(value)}`);
  if (!(ms >= 0 && ms <= MAX_MS)) throw fault('ms', `0 to ${MAX_MS} milliseconds`, ms);
  if (!(Number.isSafeInteger(bytes) && bytes > 0)) throw fault('bytes', 'a positive integer', bytes);
  return { ms, bytes };
}
