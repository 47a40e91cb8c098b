import { type Fields, unpacked } from './bodies.js';
import { must } from './deviation.js';
import type { Frame } from './frames.js';

/** @throws {Deviation} if the body of an error is not as section 4 says. */
export function failureOf({ rest, bytes }: Frame): Fields {
  const fields = unpacked(rest, 'the body of an error', bytes);
  const { code, message, retryable, retry_after_ms: delay } = fields;
  must(
    typeof code === 'string' && /^[a-z0-9_]{1,64}$/.test(code),
    'the code of an error is not 1 to 64 of a-z0-9_',
    bytes,
  );
  must(message === undefined || typeof message === 'string', 'the message of an error is not a text', bytes);
  must(retryable === undefined || typeof retryable === 'boolean', 'retryable is not a boolean', bytes);
  must(
    delay === undefined || (typeof delay === 'number' && delay >= 0),
    'retry_after_ms is not a number',
    bytes,
  );
  return fields;
}
