import type { RequestHandler } from '@parlance/protocol';
import { answerRequest } from './answer.js';
import { type OpenAIGatewayOptions, resolveGatewayOptions } from './options.js';
import { createUsageCounter, type GatewayUsage } from './usage.js';

export type { GatewayErrorCode } from './failure.js';
export type { AllowedModels } from './models.js';
export type { OpenAIGatewayOptions } from './options.js';
export type { GatewayRequest, GatewayUsage, TokenUsage, UsageTotals } from './usage.js';

/** A request handler that also knows what went through it. */
export type OpenAIGateway = RequestHandler & { readonly usage: GatewayUsage };

/**
 * Answers requests with what an API compatible with OpenAI's answers to them: chat completions, responses
 * and embeddings, streamed or not, errors included.
 *
 *     createServer({ onRequest: createOpenAIGateway({ baseUrl, apiKey }) })
 *
 * A request says by its HTTP head which endpoint it is for (docs/PROTOCOL.md, section 9); one without a
 * head is a chat completion. Bodies pass as they are in both directions, byte for byte; of a stream each
 * event is one part. Cancelling a request, or the end of its session, closes the connection to the
 * upstream at once.
 *
 * What the gateway fails with by itself has a {@link GatewayErrorCode}: it arrives as an HTTP status with
 * an error in OpenAI's shape, or as a `RequestError` of that code where the status was sent already and
 * where the request had no head.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function createOpenAIGateway(options: OpenAIGatewayOptions): OpenAIGateway {
  const gateway = resolveGatewayOptions(options);
  const usage = createUsageCounter();
  const handler: RequestHandler = (request, context) =>
    answerRequest(request, context, gateway, (record) => {
      usage.add(record);
      gateway.onUsage(record);
    });
  return Object.assign(handler, { usage });
}
