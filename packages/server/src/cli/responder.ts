import type { RequestHandler } from '@parlance/protocol';
import { createEmbeddedResponder } from './embedded-responder.js';
import { CommandFailure } from './failure.js';

/**
 * Who answers the requests of `parlance serve`: the embedded responder, or a model behind `--upstream`.
 * The only place that knows which there are.
 *
 * @param upstream base URL of an OpenAI-compatible API.
 */
export async function createResponder(upstream: string | undefined): Promise<RequestHandler> {
  if (upstream === undefined) return createEmbeddedResponder();
  throw new CommandFailure(
    `--upstream ${upstream} needs the gateway, which is not available in this version; leave it out for the embedded responder`,
  );
}
