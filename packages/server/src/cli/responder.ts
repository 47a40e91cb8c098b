import type { Logger, RequestHandler } from '@parlance/protocol';
import { createEmbeddedResponder } from './embedded-responder.js';

export interface ResponderOptions {
  /** Base URL of an OpenAI-compatible API. @default the embedded responder */
  readonly upstream: string | undefined;
  /** What that API wants to be shown. */
  readonly apiKey: string | undefined;
  readonly logger: Logger;
}

/**
 * Who answers the requests of `parlance serve`.
 *
 * @throws {ProtocolError} `invalid_option` for an upstream that is no URL.
 */
export async function createResponder({
  upstream,
  apiKey,
  logger,
}: ResponderOptions): Promise<RequestHandler> {
  if (upstream === undefined) return createEmbeddedResponder();
  // Only who forwards requests waits for what that takes.
  const { createOpenAIGateway } = await import('../gateway/openai.js');
  return createOpenAIGateway({ baseUrl: upstream, apiKey, logger });
}
