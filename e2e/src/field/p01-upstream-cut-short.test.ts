import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { freePort, startServing } from '../kit/cli-process.js';
import { createPeers, failure } from '../kit/peers.js';

/** `parlance serve --data --upstream` is killed in mid-answer: the answer is cut short, and nobody is asked twice. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

it('says so, asks the upstream no second time, and answers when it is asked again', async () => {
  let asked = 0;
  const upstream = createHttpServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const said = ++asked;
    response.write(`data: {"choices":[{"index":0,"delta":{"content":"answer ${said}"}}]}\n\n`);
    // The first one is under way when the server dies.
    if (said > 1) response.end('data: [DONE]\n\n');
  });
  upstream.listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  const { port } = upstream.address() as AddressInfo;
  const folder = await mkdtemp(join(tmpdir(), 'parlance-short-'));
  const to = ['--upstream', `http://127.0.0.1:${port}/v1`];
  const args = ['--data', folder, '--no-ui', ...to, '--port', await freePort()];
  const first = await startServing(args);
  const session = await peers.dial(first.url, { reconnect: { minDelayMs: 5, maxDelayMs: 50 } });
  const { id } = session;
  const ask = () =>
    session.fetch('/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"model":"any","stream":true,"messages":[{"role":"user","content":"What next?"}]}',
    });
  const response = await ask();
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toContain('answer 1');
  await first.stop('SIGKILL');
  const second = await startServing(args);
  const rest = (async () => {
    while (!(await reader.read()).done);
  })();
  const error = await failure(rest);
  expect([error.code, error.message]).toEqual(['interrupted', 'cut short: the server was restarted']);
  expect([asked, session.id]).toEqual([1, id]);
  expect(await (await ask()).text()).toContain('answer 2');
  await session.close();
  await second.stop();
  upstream.closeAllConnections();
  upstream.close();
  await rm(folder, { recursive: true });
});
