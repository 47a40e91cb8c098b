import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import type OpenAI from 'openai';
import WebSocket from 'ws';
import { startOpenAIUpstream } from '../kit/openai-upstream.js';

/** Calls of the `openai` package, directly and through a gateway. */

export type OpenAIClass = new (options: ConstructorParameters<typeof OpenAI>[0]) => OpenAI;

export interface Compared {
  readonly call: string;
  /** As JSON. */
  readonly direct: string;
  readonly through: string;
}

const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Hello, 世界' }];

const CALLS: Readonly<Record<string, (client: OpenAI) => Promise<unknown>>> = {
  chat: (client) => client.chat.completions.create({ model: 'gpt-4o', messages }),
  stream: async (client) =>
    collect(await client.chat.completions.create({ model: 'gpt-4o', messages, stream: true })),
  'stream helper': (client) =>
    client.chat.completions.stream({ model: 'gpt-4o', messages }).finalChatCompletion(),
  embeddings: (client) => client.embeddings.create({ model: 'text-embedding-3-small', input: ['a', 'b'] }),
  'responses stream': async (client) =>
    collect(await client.responses.create({ model: 'gpt-4o', input: 'Hello', stream: true })),
  headers: async (client) => {
    const { response } = await client.chat.completions.create({ model: 'gpt-4o', messages }).withResponse();
    return [response.status, response.headers.get('x-request-id')];
  },
  'rate limit': (client) => failure(client.chat.completions.create({ model: 'status-429', messages })),
  'server error': (client) => failure(client.chat.completions.create({ model: 'status-500', messages })),
};

export async function compareOpenAI(Client: OpenAIClass): Promise<Compared[]> {
  await using upstream = await startOpenAIUpstream();
  const gateway = createOpenAIGateway({ baseUrl: upstream.baseUrl, apiKey: 'key', maxRetries: 0 });
  await using server = createServer({ onRequest: gateway });
  const { url } = await server.listen();
  await using session = await connect(url, { WebSocket });
  const common = { maxRetries: 0, dangerouslyAllowBrowser: true };
  const direct = new Client({ ...common, baseURL: upstream.baseUrl, apiKey: 'key' });
  const through = new Client({
    ...common,
    baseURL: 'http://session/v1',
    apiKey: 'unused',
    fetch: session.fetch,
  });
  const compared: Compared[] = [];
  for (const [name, call] of Object.entries(CALLS)) {
    const results = [JSON.stringify(await call(direct)), JSON.stringify(await call(through))];
    compared.push({ call: name, direct: results[0] ?? '', through: results[1] ?? '' });
  }
  return compared;
}

async function collect<Item>(stream: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

/** A failed call as an application sees it. */
async function failure(call: Promise<unknown>): Promise<unknown> {
  try {
    return { succeeded: await call };
  } catch (error) {
    const { name, status, code, type, message } = error as Error & Record<string, unknown>;
    return { name, status, code, type, message };
  }
}
