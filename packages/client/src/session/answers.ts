import { parts } from '@parlance/protocol/client';
import type { ClientModule, Setup } from './module.js';

/** The options of requests that this end answers: `onFetch` and `batch`. @throws {ProtocolError} `invalid_option`. */
export async function createModule({ options, limits, logger }: Setup): Promise<ClientModule> {
  const { onRequest, onFetch, batch } = options;
  const { resolveBatchOptions } = await parts.answers.load();
  const plan = { onRequest, batch: resolveBatchOptions(batch) };
  if (onFetch === undefined) return { plan };
  const { createFetchHandler } = await import('@parlance/protocol/serve-http');
  const maxBodySize = limits.maxTransferSize;
  return { plan: { ...plan, onRequest: createFetchHandler({ onRequest, onFetch, maxBodySize, logger }) } };
}
