import type { BatchOptions } from '@parlance/protocol';
import { resolveBatchOptions } from '@parlance/protocol/internal';
import type { Feature } from '../server/features/feature.js';
import type { OwnHooks } from '../server/features/own-feature.js';

/**
 * Joins small parts of replies; a handler may override it.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function batching(options: BatchOptions): Feature {
  const batch = resolveBatchOptions(options);
  return { name: 'batching', install: (): OwnHooks => ({ endpoint: { batch } }) };
}
