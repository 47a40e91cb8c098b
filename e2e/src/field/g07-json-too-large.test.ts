import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type OpenAIUpstream, startOpenAIUpstream } from '../kit/openai-upstream.js';

/** JSON has the limit of a message, 64 KiB here. A body that is known to be larger is not sent; any other is 413 once it is too large. */

const LIMIT = 64 * 1024;

let upstream: OpenAIUpstream;
const open: AsyncDisposable[] = [];
beforeEach(async () => {
  upstream = await startOpenAIUpstream();
  open.push(upstream);
});
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function setUp() {
  const gateway = createOpenAIGateway({ baseUrl: upstream.baseUrl, maxBodySize: 2 * LIMIT });
  const server = createServer({ onRequest: gateway, limits: { maxMessageSize: LIMIT } });
  open.push(server);
  const { url } = await server.listen();
  const session = await connect(url, { WebSocket });
  open.push(session);
  return session;
}

const jsonOf = (length: number): string => {
  const json = (text: string) =>
    JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: text }] });
  return json('x'.repeat(length - json('').length));
};
const ASK = { method: 'POST', headers: { 'content-type': 'application/json' } };
const CHAT = 'http://session/v1/chat/completions';

describe('JSON of n + 1 bytes', () => {
  it.each<[string, (json: string) => BodyInit]>([
    ['a string', (json) => json],
    ['bytes', (json) => Buffer.from(json)],
    ['a file', (json) => new Blob([json])],
  ])('as %s is refused before any of it is sent', async (_what, bodyOf) => {
    const session = await setUp();
    const sent = () => session.stats().sent.contentBytes;
    const before = sent();
    const response = await session.fetch(CHAT, { ...ASK, body: bodyOf(jsonOf(LIMIT + 1)) });
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject({ error: { code: 'body_too_large' } });
    expect(sent() - before).toBeLessThan(LIMIT / 8);
    expect(upstream.requests).toEqual([]);
  });

  it('as a stream is refused once it is too large', async () => {
    const session = await setUp();
    const body = new Blob([jsonOf(4 * LIMIT)]).stream();
    const response = await session.fetch(CHAT, { ...ASK, body, duplex: 'half' } as RequestInit);
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject({ error: { code: 'body_too_large' } });
    expect(upstream.requests).toEqual([]);
  });
});

it.each([0, 1])('JSON of n - %d bytes is answered', async (less) => {
  const session = await setUp();
  const response = await session.fetch(CHAT, { ...ASK, body: jsonOf(LIMIT - less) });
  expect(response.status).toBe(200);
  expect(upstream.requests[0]?.body.length).toBe(LIMIT - less);
});

it('a form that states to be larger than it may be is refused before it is sent', async () => {
  const session = await setUp();
  const form = new FormData();
  form.set('model', 'whisper-1');
  form.set('file', new Blob([new Uint8Array(3 * LIMIT)]));
  const whole = new Response(form);
  const headers = { 'content-type': whole.headers.get('content-type') ?? '' };
  const body = new Uint8Array(await whole.arrayBuffer());
  const response = await session.fetch('http://session/v1/audio/transcriptions', {
    method: 'POST',
    headers,
    body,
  });
  expect(response.status).toBe(413);
  expect(upstream.requests).toEqual([]);
});
