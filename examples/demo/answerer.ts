import type { RequestHandler } from '@parlance/protocol';
import { createOpenAIGateway } from '@parlance/server/openai';
import { createResponder } from './responder.js';

/** Who answers: the API that `OPENAI_BASE_URL` names, with the key in `OPENAI_API_KEY`, or the embedded responder. */
export interface Answerer {
  readonly onRequest: RequestHandler;
  /** What requests ask for. */
  readonly model: string;
  /** Whether the answers are known, as the embedded responder's are. */
  readonly isEmbedded: boolean;
}

export interface AnswererOptions {
  /** Pause of the embedded responder between two words, in milliseconds. @default 0 */
  readonly delayMs?: number | undefined;
}

const DEFAULT_MODEL = 'gpt-4o';

export function createAnswerer({ delayMs = 0 }: AnswererOptions = {}): Answerer {
  const { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: apiKey, OPENAI_MODEL: model } = process.env;
  if (!baseUrl) return { onRequest: createResponder({ delayMs }), model: DEFAULT_MODEL, isEmbedded: true };
  return {
    onRequest: createOpenAIGateway({ baseUrl, apiKey }),
    model: model || DEFAULT_MODEL,
    isEmbedded: false,
  };
}
