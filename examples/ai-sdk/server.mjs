import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { createServer } from '@parlance/server';
import { chatHandler } from '@parlance/server/ai';
import { convertToModelMessages, streamText } from 'ai';

const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey, PAGE = 'http://localhost:5173' } = process.env;
const model = createOpenAICompatible({ name: 'openai', baseURL, apiKey })('gpt-4o');
const server = createServer({
  origins: [PAGE],
  onRequest: chatHandler(async ({ messages, signal }) =>
    streamText({ model, messages: await convertToModelMessages(messages), abortSignal: signal }),
  ),
});
console.log('listening on', (await server.listen({ port: 8767 })).url);
