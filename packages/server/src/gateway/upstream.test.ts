import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { createSender } from './send.js';
import { callUpstream } from './upstream.js';

it('stops sending a body when the answer is over', async () => {
  const server = createServer((_request, response) => void response.end('enough'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
  let isStopped = false;
  async function* endless(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        yield new Uint8Array(1_000);
        await new Promise(setImmediate);
      }
    } finally {
      isStopped = true;
    }
  }
  const response = await callUpstream(
    {
      url,
      method: 'POST',
      headers: new Map(),
      body: endless(),
      signal: new AbortController().signal,
    },
    {
      send: createSender(url).send,
      ...{ maxRetries: 0, maxRetryDelayMs: 0, responseTimeoutMs: 20_000, idleTimeoutMs: 20_000 },
    },
  );
  let text = '';
  for await (const chunk of response.chunks) text += Buffer.from(chunk);
  expect(text).toBe('enough');
  response.close();
  await expect.poll(() => isStopped).toBe(true);
  server.closeAllConnections();
  server.close();
});
