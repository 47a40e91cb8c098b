import { freePort } from '../kit/cli-process.js';
import { startOpenAIUpstream } from '../kit/openai-upstream.js';
import type { Guide } from './guide.js';

export const models: Guide = async ({ pasted, folder }) => {
  await using upstream = await startOpenAIUpstream();
  const keys = { ollama: undefined, vllm: 'key-of-vllm', anthropic: 'key-of-anthropic' };
  for (const [name, key] of Object.entries(keys)) {
    const port = await freePort();
    const env = {
      UPSTREAM: name,
      BASE_URL: upstream.baseUrl,
      PORT: port,
      MODELS: 'llama*',
      VLLM_API_KEY: keys.vllm,
      ANTHROPIC_API_KEY: keys.anthropic,
    };
    const gateway = pasted.start('node gateway.mjs', { folder, env });
    await gateway.printed('listening');
    await pasted.run('node chat.mjs', ['Tokens travel'], {
      folder,
      env: { GATEWAY: `ws://127.0.0.1:${port}` },
    });
    const { authorization } = upstream.requests.at(-1)?.headers ?? {};
    if (authorization !== (key && `Bearer ${key}`)) throw new Error(`${name} was sent ${authorization}`);
    await gateway.kill();
  }
};
