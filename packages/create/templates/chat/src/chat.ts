import { createOpenAIGateway } from '@parlance/server/openai';
import { toyModel } from './toy-model.js';

type Settings = Partial<Record<'OPENAI_API_KEY' | 'OPENAI_BASE_URL' | 'OPENAI_MODEL', string>>;

/** Forwards the requests of pages to the API of a model. The key stays here. */
export function createChat({
  OPENAI_API_KEY: apiKey,
  OPENAI_BASE_URL: baseUrl,
  OPENAI_MODEL: model,
}: Settings) {
  const isToy = apiKey === undefined && baseUrl === undefined;
  return createOpenAIGateway({
    baseUrl: baseUrl ?? 'https://api.openai.com/v1',
    apiKey,
    // A model of your own may have any name.
    models: model !== undefined ? [model] : baseUrl === undefined && !isToy ? ['gpt-4o-mini'] : undefined,
    ...(isToy && { fetch: toyModel }),
  });
}
