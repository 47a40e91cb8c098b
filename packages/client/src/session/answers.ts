import { parts } from '@parlance/protocol/client';
import { addModules } from './added-modules.js';
import type { ClientModule, Setup } from './module.js';

/**
 * The options of requests that this end answers, `onFetch` and `batch`, and `modules`, which answer some as well.
 *
 * @throws {ProtocolError} `invalid_option`, and what a module throws that cannot be installed.
 */
export async function createModule({ options, limits, logger, tools }: Setup): Promise<ClientModule> {
  const { onFetch, modules } = options;
  let { onRequest } = options;
  const answers = await parts.answers.load();
  const batch = answers.resolveBatchOptions(options.batch);
  if (onFetch !== undefined) {
    const { createFetchHandler } = await import('@parlance/protocol/serve-http');
    const maxBodySize = limits.maxTransferSize;
    onRequest = createFetchHandler({ onRequest, onFetch, maxBodySize, logger });
  }
  if (modules === undefined) return { plan: { batch, onRequest } };
  const added = addModules(modules, {
    tools,
    answers,
    isShared: options.shared !== undefined && options.shared !== false,
  });
  return { plan: { batch, onRequest: added.wrap(onRequest) }, open: added.open };
}
