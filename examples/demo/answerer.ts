import type { RequestHandler } from '@parlance/protocol';
import { createOpenAIGateway } from '@parlance/server/openai';
import { createResponder } from './responder.js';

/** Answers requests: the API at `OPENAI_BASE_URL` with the key in `OPENAI_API_KEY`, or the embedded responder. */
export interface Answerer {
  readonly onRequest: RequestHandler;
  /** The model to request. */
  readonly model: string;
  /** Whether the embedded responder answers, whose answers are known. */
  readonly isEmbedded: boolean;
  /** How many answers were stopped before their end. */
  cancelled(): number;
}

export interface AnswererOptions {
  /** Pause of the embedded responder between two words, in milliseconds. @default 0 */
  readonly delayMs?: number | undefined;
}

const DEFAULT_MODEL = 'gpt-4o';

export function createAnswerer({ delayMs = 0 }: AnswererOptions = {}): Answerer {
  const { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: apiKey, OPENAI_MODEL: model } = process.env;
  const isEmbedded = !baseUrl;
  const answer: RequestHandler = isEmbedded
    ? createResponder({ delayMs })
    : createOpenAIGateway({ baseUrl, apiKey });
  let cancelled = 0;
  return {
    onRequest(request, context) {
      context.signal.addEventListener('abort', () => {
        cancelled++;
      });
      return answer(request, context);
    },
    model: (!isEmbedded && model) || DEFAULT_MODEL,
    isEmbedded,
    cancelled: () => cancelled,
  };
}
