import { createServer as createHttpServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ClientSession, connect } from '@parlance/client';
import type { ProtocolError, RequestError } from '@parlance/protocol';
import { createServer } from '@parlance/server';
import { createOpenAIGateway, type OpenAIGatewayOptions } from '@parlance/server/openai';
import { afterEach, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';

/** Attacks of clients, and odd upstreams, on a gateway that several principals share. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

interface Asked {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** @param answer the upstream's answer to each request, after its body was read. */
async function setUp(answer: RequestListener, options: Partial<OpenAIGatewayOptions> = {}) {
  const asked: Asked[] = [];
  const upstream = createHttpServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    asked.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    answer(request, response);
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  open.push({ [Symbol.asyncDispose]: async () => void upstream.close().closeAllConnections() });
  const { port } = upstream.address() as AddressInfo;
  const gateway = createOpenAIGateway({
    baseUrl: `http://127.0.0.1:${port}/v1`,
    apiKey: 'sk-canary-3f9a61c27be04d58',
    ...options,
  });
  const server = createServer({
    onRequest: gateway,
    authenticate: ({ token }) => ({ principal: token ?? 'stranger' }),
  });
  open.push(server);
  const { url } = await server.listen();
  const dial = async (token: string): Promise<ClientSession> => {
    const session = await connect(url, { WebSocket, token });
    open.push(session);
    return session;
  };
  return { asked, gateway, dial, session: await dial('alice') };
}

const post = (session: ClientSession, path: string, body: string, headers?: Record<string, string>) =>
  session.fetch(`http://session/v1${path}`, { method: 'POST', body, ...(headers && { headers }) });
const ok: RequestListener = (_request, response) => response.end('{}');
const CHAT = '{"model":"gpt-4o","messages":[]}';

describe('a client', () => {
  it('that sends too many values is refused only if the model must be checked', async () => {
    // Incompressible, so that the limit on expansion does not apply.
    const values = Array.from({ length: 600_000 }, (_, i) => (i * 7919) % 97);
    const body = `{"model":"gpt-4o","x":[${values.join()}]}`;
    const deciding = await setUp(ok, { models: ['gpt-4o'] });
    const refused = await post(deciding.session, '/chat/completions', body);
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { code: 'bad_request' } });
    expect(deciding.asked).toEqual([]);
    const passing = await setUp(ok);
    expect((await post(passing.session, '/chat/completions', body)).status).toBe(200);
    expect(passing.asked[0]?.body === body).toBe(true);
    expect(passing.gateway.usage.total).toMatchObject({ requests: 1, failed: 0 });
  });

  it('does not get past the list of models with a key that other parsers read as the model', async () => {
    const { session, asked } = await setUp(ok, { models: ['gpt-4o'] });
    for (const other of ['"Model":"o1-pro"', '"mode\\u006c":"o1-pro"', '"\\u004dODEL":"o1-pro"']) {
      const { status } = await post(session, '/chat/completions', `{"model":"gpt-4o",${other}}`);
      expect(status).toBe(400);
    }
    expect(asked).toEqual([]);
    expect((await post(session, '/chat/completions', CHAT)).status).toBe(200);
  });

  it('shares no idempotency keys with other principals, and finds its own again in another session', async () => {
    const { dial, asked } = await setUp(ok);
    for (const name of ['alice', 'bob', 'alice']) {
      await post(await dial(name), '/chat/completions', CHAT, { 'idempotency-key': 'once' });
    }
    const [first, second, third] = asked.map(({ headers }) => headers['idempotency-key']);
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(second).not.toBe(first);
    expect(third).toBe(first);
  });

  it('refers to stored responses only if the operator allows it', async () => {
    const bodies = [
      '{"model":"m","previous_response_id":"resp_1"}',
      '{"model":"m","conversation":{"id":"conv_1"}}',
      '{"model":"m","Previous_Response_id":"resp_1"}',
      '{"model":"m","previous_response_id":null,"previous_response_id":"resp_1"}',
      `{"previous_response_id":"resp_1","x":${'['.repeat(600)}${']'.repeat(600)}}`,
    ];
    const folded = [
      '{"model":"m","previou\u017f_response_id":"resp_1"}',
      '{"model":"m","previou\\u017F_response_id":"resp_1"}',
      '{"model":"m","previous\\u005fresponse_id":"resp_1"}',
      '{"model":"m","conver\u017fation":"conv_1"}',
      '{"model":"m","PREV\u0130OUS_RESPONSE_ID":"resp_1"}',
      '{"model":"m","Conversation":null}',
      '{"model":"m","conversation":null,"conversation":null}',
      '{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}',
      '{"model":"m","input":["x",[],{"role":"user","content":"a,b"} , {"id":"msg_1"}]}',
      '{"model":"m","input":[{"id":"msg_1","type":null}]}',
      '{"model":"m","input":[{"id":"msg_1","type":"item\\u005freference"}]}',
      '{"model":"m","input":[{"id":"msg_1","type":"message","Type":"item_reference"}]}',
      '{"model":"m","input":[{"id":"msg_1","type":"message","type":"item_reference"}]}',
      '{"model":"m","input":[{"\\u0069d":"msg_1"}]}',
      '{"model":"m","input":{"type":"item_reference","id":"msg_1"}}',
      '{"model":"m","input":"x","\\u0049nput":[{"id":"msg_1"}]}',
      '{"model":"m","input":"x","input":[{"id":"msg_1"}]}',
    ];
    bodies.push(...folded);
    const closed = await setUp(ok, { storedResponses: false });
    for (const body of bodies) {
      const refused = await post(closed.session, '/responses', body);
      expect(refused.status, body).toBe(400);
      expect(await refused.json()).toMatchObject({ error: { code: 'bad_request' } });
    }
    expect(closed.asked).toEqual([]);
    const none = '{"model":"m","previous_response_id":null,"input":"previous_response_id"}';
    expect((await post(closed.session, '/responses', none)).status).toBe(200);
    const passing = [
      '{"model":"m", "input" : [ {"type":"message","id":"msg_1","role":"user","content":"item_reference"} ],"Store":0}',
      '{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"{\\"id\\":1}"}]},[],"x",{}]}',
      '{"model":"m","metadata":{"conver\u017fation":1},"tools":[{"type":"x","type":"y"}],"\u017f":1,"input":[]}',
    ];
    for (const body of passing) {
      expect((await post(closed.session, '/responses', body)).status, body).toBe(200);
      expect(closed.asked.at(-1)?.body).toBe(body);
    }
    // Other endpoints ignore it.
    expect((await post(closed.session, '/chat/completions', bodies[0] ?? '')).status).toBe(200);
    const free = await setUp(ok);
    for (const body of bodies) expect((await post(free.session, '/responses', body)).status).toBe(200);
  });

  it('uses the upstream key of its principal, if each has its own', async () => {
    const { dial, asked } = await setUp(ok, { apiKey: ({ principal }) => `sk-of-${principal}` });
    for (const name of ['alice', 'bob']) await post(await dial(name), '/chat/completions', CHAT);
    expect(asked.map(({ headers }) => headers['authorization'])).toEqual([
      'Bearer sk-of-alice',
      'Bearer sk-of-bob',
    ]);
  });
});

it.each(['apiKey', 'models'] as const)(
  'a request that is cancelled does not wait for `%s` any longer',
  async (name) => {
    const over: unknown[] = [];
    const hang = vi.fn(() => new Promise<never>(() => {}));
    const { session } = await setUp(ok, { [name]: hang, onUsage: ({ outcome }) => over.push(outcome) });
    const controller = new AbortController();
    const { signal } = controller;
    const init = { method: 'POST', body: CHAT, signal };
    const answer = session.fetch('http://session/v1/chat/completions', init).catch(() => 'cancelled');
    await expect.poll(() => hang).toHaveBeenCalledOnce();
    controller.abort();
    expect(await answer).toBe('cancelled');
    await expect.poll(() => over).toEqual(['cancelled']);
  },
);

describe('the tokens of an answer are counted', () => {
  const usage = { input_tokens: 1000, output_tokens: 5000 };
  const counted = { promptTokens: 1000, completionTokens: 5000 };
  const metadata = Object.fromEntries(
    Array.from({ length: 16 }, (_, i) => [i === 0 ? 'usage' : `key${i}`, '\u0001'.repeat(512)]),
  );

  it('even if the upstream repeats much text after them', async () => {
    const { session, gateway } = await setUp((_request, response) =>
      response.end(JSON.stringify({ output: [], usage, user: '"usage":{', metadata })),
    );
    await (await post(session, '/responses', CHAT)).text();
    expect(gateway.usage.total).toMatchObject({ ...counted, unmetered: 0 });
  });

  it('even if later events of a stream quote them', async () => {
    const { session, gateway } = await setUp((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const events = [
        { type: 'response.completed', response: { output: [], usage, metadata } },
        { choices: [{ delta: { content: 'usage' } }], usage: null, metadata: { usage: 'x' } },
        { choices: [{ delta: { usage: { prompt_tokens: 1 } } }] },
      ];
      response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
    });
    await (await post(session, '/responses', CHAT)).text();
    expect(gateway.usage.total).toMatchObject({ ...counted, unmetered: 0 });
  });
});

describe('an odd upstream', () => {
  it('that sends header names that cannot be forwarded has them left out', async () => {
    const { session } = await setUp((_request, response) => {
      response.writeHead(200, { 'x-ratelimit-a!b': '1', 'x-ratelimit-c': '2', 'x-request-id': 'über' });
      response.end('{}');
    });
    const { status, headers } = await post(session, '/chat/completions', CHAT);
    expect(status).toBe(200);
    expect(headers.get('x-ratelimit-c')).toBe('2');
    expect(headers.has('x-ratelimit-a!b')).toBe(false);
  });

  it.each([600, 799, 999])('that answers %i is unusable', async (code) => {
    const { session } = await setUp((_request, response) => response.writeHead(code).end('{}'));
    const response = await post(session, '/chat/completions', CHAT);
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_unusable' } });
  });

  it.each([
    ['a byte-order mark', '\ufeffwrong', '\ufeff{"error":{"message":"wrong"}}'],
    ['a byte-order mark in its message', '\ufeffwrong', '{"error":{"message":"\ufeffwrong"}}'],
    ['half a surrogate pair', 'wrong \ufffd', '{"error":{"message":"wrong \\ud83d"}}'],
    ['a message that is not text', 'the upstream responded with status 400', '{"error":{"message":{"a":1}}}'],
    ['data beyond JSON', 'wrong', '{"error":{"message":"wrong","param":"\\udc00","__proto__":{"a":1}}}'],
  ])('whose error has %s is reported with and without an HTTP head', async (_what, message, body) => {
    const { session } = await setUp((_request, response) => response.writeHead(400).end(body));
    const response = await post(session, '/chat/completions', CHAT);
    expect(response.status).toBe(400);
    expect(Buffer.from(await response.arrayBuffer()).toString()).toBe(body);
    const error = await session.request(CHAT).catch((reason: ProtocolError | RequestError) => reason);
    expect(error).toMatchObject({ code: 'upstream_status', data: { status: 400 } });
    expect([message, 'wrong', 'the upstream responded with status 400']).toContain((error as Error).message);
  });

  it.each(['base64', 'base64url', 'hex'] as const)(
    'that repeats the key in %s has it masked',
    async (form) => {
      const { session } = await setUp((request, response) => {
        const { authorization = '' } = request.headers;
        response.writeHead(401, { 'x-request-id': Buffer.from(authorization).toString(form) });
        response.end(JSON.stringify({ error: { message: Buffer.from(authorization).toString(form) } }));
      });
      const response = await post(session, '/chat/completions', CHAT);
      const shown = `${response.headers.get('x-request-id')} ${await response.text()}`;
      expect(shown).toContain('[hidden]');
      for (const encoding of ['utf8', 'base64', 'base64url', 'hex'] as const) {
        for (const word of shown.split(/[^A-Za-z0-9+/_-]/)) {
          expect(Buffer.from(word, encoding).toString('latin1')).not.toContain('sk-canary');
        }
      }
    },
  );
});
