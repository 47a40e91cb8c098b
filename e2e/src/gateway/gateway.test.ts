import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { type ClientSession, connect } from '@parlance/client';
import { ProtocolError, RequestError } from '@parlance/protocol';
import { batching, createServer, type ServerOptions } from '@parlance/server';
import { createOpenAIGateway, type OpenAIGatewayOptions } from '@parlance/server/openai';
import { embed, embedMany, generateText, jsonSchema, streamText, type ToolSet } from 'ai';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type OpenAIUpstream, RATE_LIMIT_HEADERS, startOpenAIUpstream } from '../kit/openai-upstream.js';

/**
 * The real SDKs through `session.fetch` and the gateway, compared to the same SDKs with a direct connection:
 * there must be no difference, except where a session is better.
 */

const KEY = 'sk-canary-3f9a61c27be04d58';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});
let upstream: OpenAIUpstream;
beforeEach(async () => {
  upstream = await startOpenAIUpstream();
  open.push(upstream);
});

interface Setup {
  readonly session: ClientSession;
  readonly proxy: CuttingProxy;
  readonly gateway: ReturnType<typeof createOpenAIGateway>;
}

async function setUp(
  gatewayOptions: Partial<OpenAIGatewayOptions> = {},
  serverOptions: ServerOptions = {},
): Promise<Setup> {
  const gateway = createOpenAIGateway({ baseUrl: upstream.baseUrl, apiKey: KEY, ...gatewayOptions });
  const server = createServer({ onRequest: gateway, ...serverOptions });
  open.push(server);
  const { port } = await server.listen();
  const proxy = await createCuttingProxy(port);
  open.push(proxy);
  const session = await connect(`ws://127.0.0.1:${proxy.port}/session`, {
    WebSocket,
    token: 'alice',
    reconnect: { minDelayMs: 5, maxDelayMs: 50 },
  });
  open.push(session);
  return { session, proxy, gateway };
}

const direct = () => new OpenAI({ baseURL: upstream.baseUrl, apiKey: KEY, maxRetries: 0 });
const through = ({ session }: Pick<Setup, 'session'>) =>
  new OpenAI({
    baseURL: 'http://parlance/v1',
    apiKey: 'unused',
    dangerouslyAllowBrowser: true,
    maxRetries: 0,
    fetch: session.fetch,
  });
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Hello, 世界' }];
const tools: OpenAI.ChatCompletionTool[] = [
  { type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: {} } } },
];

/** Collects everything that a stream yields. */
async function collect<Item>(stream: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

/** The parts of an SDK error that a user sees. */
async function failure(promise: Promise<unknown>) {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    const { name, message, status, code, type, error: body, headers } = error;
    const limits = Object.keys(RATE_LIMIT_HEADERS).map((header) => headers?.get(header));
    return { name, message, status, code, type, body, limits, after: headers?.get('retry-after') };
  }
  throw new Error('the call did not fail');
}

describe('the openai package gets the same as directly', () => {
  const asked: readonly [string, (client: OpenAI) => Promise<unknown>][] = [
    ['a completion', (client) => client.chat.completions.create({ model: 'gpt-4o', messages })],
    [
      'a streamed completion',
      async (client) =>
        collect(await client.chat.completions.create({ model: 'gpt-4o', messages, stream: true })),
    ],
    [
      'a streamed completion with usage',
      async (client) =>
        collect(
          await client.chat.completions.create({
            model: 'gpt-4o',
            messages,
            stream: true,
            stream_options: { include_usage: true },
          }),
        ),
    ],
    ['a tool call', (client) => client.chat.completions.create({ model: 'gpt-4o', messages, tools })],
    [
      'a streamed tool call',
      (client) => client.chat.completions.stream({ model: 'gpt-4o', messages, tools }).finalChatCompletion(),
    ],
    [
      'an answer to an image',
      (client) =>
        client.chat.completions.create({
          model: 'gpt-4o',
          messages: [
            {
              role: 'user',
              content: [
                { type: 'text', text: 'What is this?' },
                {
                  type: 'image_url',
                  image_url: { url: `data:image/png;base64,${'iVBORw0KGgo'.repeat(20_000)}` },
                },
              ],
            },
          ],
        }),
    ],
    ['a response', (client) => client.responses.create({ model: 'gpt-4o', input: 'Hello' })],
    [
      'a streamed response',
      async (client) =>
        collect(await client.responses.create({ model: 'gpt-4o', input: 'Hello', stream: true })),
    ],
    [
      'embeddings in base64',
      (client) => client.embeddings.create({ model: 'text-embedding-3-small', input: ['one', 'two'] }),
    ],
    [
      'a megabyte of embeddings',
      (client) =>
        client.embeddings.create({
          model: 'text-embedding-3-small',
          input: Array.from({ length: 40 }, (_, i) => `text ${i}`),
          encoding_format: 'float',
        }),
    ],
    [
      'a slow first token',
      async (client) =>
        collect(await client.chat.completions.create({ model: 'slow', messages, stream: true })),
    ],
    ...[400, 401, 429, 500].map((status): [string, (client: OpenAI) => Promise<unknown>] => [
      `error ${status}`,
      (client) => failure(client.chat.completions.create({ model: `status-${status}`, messages })),
    ]),
    [
      'an error instead of a stream',
      (client) => failure(client.chat.completions.create({ model: 'status-429', messages, stream: true })),
    ],
    [
      'an error in the middle of a stream',
      async (client) =>
        failure(
          collect(await client.chat.completions.create({ model: 'error-in-stream', messages, stream: true })),
        ),
    ],
  ];

  it.each(asked)('%s', async (_what, ask) => {
    const expected = await ask(direct());
    const setup = await setUp();
    expect(await ask(through(setup))).toEqual(expected);
    // The upstream receives the request as the SDK wrote it.
    const [first, second] = upstream.requests;
    expect(second).toMatchObject({ path: first?.path, body: first?.body });
  });

  it('down to the bytes, with the headers for clients', async () => {
    const setup = await setUp();
    for (const stream of [false, true]) {
      const [plain, carried] = await Promise.all(
        [direct(), through(setup)].map(async (client) => {
          const response = await client.chat.completions
            .create({ model: 'gpt-4o', messages, stream })
            .asResponse();
          const headers = Object.fromEntries(response.headers);
          return { status: response.status, text: await response.text(), headers };
        }),
      );
      expect(carried?.text).toBe(plain?.text);
      expect(carried?.status).toBe(plain?.status);
      expect(carried?.headers).toEqual({
        'content-type': plain?.headers['content-type'],
        ...RATE_LIMIT_HEADERS,
      });
    }
  });

  it('when its own stream is aborted', async () => {
    const setup = await setUp();
    const heard = async (client: OpenAI) => {
      const stream = await client.chat.completions.create({ model: 'endless', messages, stream: true });
      let parts = 0;
      for await (const _chunk of stream) if (++parts === 7) stream.controller.abort();
      return parts;
    };
    expect(await heard(through(setup))).toBe(await heard(direct()));
  });

  it('when its request is aborted', async () => {
    const setup = await setUp();
    for (const client of [direct(), through(setup)]) {
      const controller = new AbortController();
      const asking = client.chat.completions.create(
        { model: 'silent', messages },
        { signal: controller.signal },
      );
      await expect.poll(() => upstream.openExchanges).toBe(1);
      controller.abort();
      await expect(asking).rejects.toThrow(OpenAI.APIUserAbortError);
      await expect.poll(() => upstream.openExchanges).toBe(0);
    }
  });

  it('over reused connections', async () => {
    const setup = await setUp();
    const client = through(setup);
    for (let i = 0; i < 6; i++) await client.chat.completions.create({ model: 'gpt-4o', messages });
    expect(upstream.connections).toBe(1);
  });
});

describe('the ai package gets the same as directly', () => {
  const providers = (setup: Setup) => [
    createOpenAICompatible({ name: 'direct', baseURL: upstream.baseUrl, apiKey: KEY, includeUsage: true }),
    createOpenAICompatible({
      name: 'direct',
      baseURL: 'http://parlance/v1',
      includeUsage: true,
      fetch: setup.session.fetch,
    }),
  ];

  it('text and usage', async () => {
    const [expected, got] = await Promise.all(
      providers(await setUp()).map(async (provider) => {
        const { text, usage, finishReason } = await generateText({
          model: provider('gpt-4o'),
          prompt: 'Hello',
        });
        return { text, usage, finishReason };
      }),
    );
    expect(got).toEqual(expected);
    expect(got?.usage.inputTokens).toBe(19);
  });

  it('streamed text, part by part', async () => {
    const [expected, got] = await Promise.all(
      providers(await setUp()).map(async (provider) => {
        const result = streamText({ model: provider('gpt-4o'), prompt: 'Hello' });
        return { parts: await collect(result.textStream), usage: await result.usage };
      }),
    );
    expect(got).toEqual(expected);
    expect(got?.parts.length).toBeGreaterThan(10);
  });

  it('a streamed tool call', async () => {
    const weather: ToolSet = {
      get_weather: {
        description: 'Weather',
        inputSchema: jsonSchema({ type: 'object', properties: { city: { type: 'string' } } }),
      },
    };
    const [expected, got] = await Promise.all(
      providers(await setUp()).map(async (provider) => {
        const result = streamText({
          model: provider('gpt-4o'),
          prompt: 'Rain?',
          tools: weather,
        });
        const [call] = await result.toolCalls;
        return { name: call?.toolName, input: call?.input, reason: await result.finishReason };
      }),
    );
    expect(got).toEqual(expected);
    expect(got?.input).toEqual({ city: 'Wien', days: 3 });
  });

  it('embeddings', async () => {
    const [expected, got] = await Promise.all(
      providers(await setUp()).map(async (provider) => {
        const model = provider.embeddingModel('text-embedding-3-small');
        const one = await embed({ model, value: 'one' });
        const many = await embedMany({ model, values: ['one', 'two'] });
        return [one.embedding, ...many.embeddings];
      }),
    );
    expect(got).toEqual(expected);
  });

  it('an error', async () => {
    const [expected, got] = await Promise.all(
      providers(await setUp()).map(async (provider) => {
        const asking = generateText({ model: provider('status-400'), prompt: 'Hello', maxRetries: 0 });
        const error = (await asking.catch((reason: unknown) => reason)) as Record<string, unknown>;
        return {
          name: error['name'],
          message: error['message'],
          status: error['statusCode'],
          body: error['responseBody'],
        };
      }),
    );
    expect(got).toEqual(expected);
    expect(got?.status).toBe(400);
  });

  it('an aborted stream', async () => {
    const [, provider] = providers(await setUp());
    const controller = new AbortController();
    const { textStream } = streamText({
      model: (provider as ReturnType<typeof createOpenAICompatible>)('endless'),
      prompt: 'Hello',
      abortSignal: controller.signal,
    });
    for await (const _text of textStream) controller.abort();
    await expect.poll(() => upstream.openExchanges).toBe(0);
  });
});

describe('a connection that is lost in the middle of a stream', () => {
  it('twice, changes nothing', async () => {
    const ask = async (client: OpenAI, onPart: (count: number) => void) => {
      const chunks: unknown[] = [];
      for await (const chunk of await client.chat.completions.create({
        model: 'long',
        messages,
        stream: true,
      })) {
        onPart(chunks.push(chunk));
      }
      return chunks;
    };
    const expected = await ask(direct(), () => {});
    const setup = await setUp();
    const states: string[] = [];
    setup.session.on('state', (state) => states.push(state));
    const got = await ask(through(setup), (count) => {
      if (count === 10) setup.proxy.cut();
      if (count === 100) setup.proxy.cutAfter(3);
    });
    expect(got).toEqual(expected);
    expect(states).toEqual(['suspended', 'established', 'suspended', 'established']);
    expect(upstream.requests).toHaveLength(2);
  });

  it('before the answer, changes nothing', async () => {
    const setup = await setUp();
    const expected = await direct()
      .chat.completions.create({ model: 'slow', messages, stream: true })
      .then(collect);
    const asking = through(setup)
      .chat.completions.create({ model: 'slow', messages, stream: true })
      .then(collect);
    await expect.poll(() => upstream.openExchanges).toBe(1);
    setup.proxy.cut();
    expect(await asking).toEqual(expected);
  });

  it('for good, closes the upstream connection after the resume window, and reports it', async () => {
    const setup = await setUp({}, { timers: { resumeWindowMs: 100 } });
    const stream = await through(setup).chat.completions.create({ model: 'endless', messages, stream: true });
    const reading = (async () => {
      for await (const _chunk of stream);
    })();
    await expect.poll(() => upstream.openExchanges).toBe(1);
    setup.proxy.refuse(true);
    setup.proxy.cut();
    await expect(reading).rejects.toMatchObject({ code: 'session_lost' });
    await expect.poll(() => upstream.openExchanges).toBe(0);
    expect(setup.gateway.usage.total).toMatchObject({ requests: 1, cancelled: 1 });
    // The same fetch continues with the next session.
    setup.proxy.refuse(false);
    await expect.poll(() => setup.session.state).toBe('established');
    const { choices } = await through(setup).chat.completions.create({ model: 'gpt-4o', messages });
    expect(choices).toHaveLength(1);
  });
});

describe('a server that joins parts', () => {
  const joins: ServerOptions = { features: [batching({ ms: 1_000 })] };

  it('joins no events, so that the openai package gets the same as directly', async () => {
    const setup = await setUp({}, joins);
    const [expected, got] = await Promise.all(
      [direct(), through(setup)].map(async (client) =>
        collect(await client.chat.completions.create({ model: 'gpt-4o', messages, stream: true })),
      ),
    );
    expect(got).toEqual(expected);
  });

  it('joins no events of a request without an HTTP head', async () => {
    const { session } = await setUp({}, joins);
    const parts = await collect(session.stream({ model: 'gpt-4o', messages, stream: true }));
    const texts = parts.map(({ text }) => text).filter((text) => text !== '');
    expect(texts.pop()).toBe('[DONE]');
    expect(texts.length).toBeGreaterThan(10);
    for (const text of texts) expect(JSON.parse(text)).toMatchObject({ object: 'chat.completion.chunk' });
  });
});

describe('a session with protected frames', () => {
  it('carries the same', async () => {
    const security = { mode: 'AEAD', key: new Uint8Array(32).fill(7) } as const;
    const server = createServer({
      onRequest: createOpenAIGateway({ baseUrl: upstream.baseUrl, apiKey: KEY }),
      security,
    });
    open.push(server);
    const { url } = await server.listen();
    const session = await connect(url, { WebSocket, security });
    open.push(session);
    const ask = (client: OpenAI) =>
      client.chat.completions.create({ model: 'gpt-4o', messages, stream: true }).then(collect);
    expect(await ask(through({ session }))).toEqual(await ask(direct()));
  });
});

describe('a client that cancels', () => {
  it('closes the upstream connection by an abort, a break, or a cancelled body', async () => {
    const setup = await setUp();
    const ways: ((response: Response, controller: AbortController) => Promise<unknown>)[] = [
      async (_response, controller) => controller.abort(),
      async (response) => response.body?.cancel(),
      async (response) => {
        for await (const _bytes of response.body as unknown as AsyncIterable<Uint8Array>) break;
      },
    ];
    for (const leave of ways) {
      const controller = new AbortController();
      const response = await setup.session.fetch('/v1/chat/completions', {
        method: 'POST',
        body: JSON.stringify({ model: 'endless', stream: true, messages }),
        signal: controller.signal,
      });
      expect(upstream.openExchanges).toBe(1);
      await leave(response, controller);
      await expect.poll(() => upstream.openExchanges).toBe(0);
    }
    await expect.poll(() => setup.session.stats().openStreams).toBe(0);
    expect(setup.gateway.usage.total).toMatchObject({ requests: 3, cancelled: 3, failed: 0 });
  });

  it('by closing the session closes the upstream connection', async () => {
    const setup = await setUp();
    const asking = through(setup).chat.completions.create({ model: 'silent', messages });
    const failing = expect(asking).rejects.toMatchObject({ cause: { code: 'session_closed' } });
    await expect.poll(() => upstream.openExchanges).toBe(1);
    await setup.session.close();
    await failing;
    await expect.poll(() => upstream.openExchanges).toBe(0);
  });

  it('nothing but reads slowly holds the upstream back', async () => {
    const setup = await setUp();
    const response = await setup.session.fetch('/v1/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ model: 'endless', stream: true, messages }),
    });
    const reader = response.body?.getReader();
    await reader?.read();
    // Similar events take almost nothing on the wire, but count with their full size.
    const received = () => setup.session.stats().received.contentBytes;
    const atFirst = received();
    // The stream's credit bounds what is read ahead.
    let before = -1;
    const isStill = () => {
      const now = received();
      const still = now === before;
      before = now;
      return still;
    };
    await expect.poll(isStill, { interval: 250 }).toBe(true);
    expect(before).toBeGreaterThan(atFirst);
    expect(before).toBeLessThan(64 * 1024);
    for (let i = 0; i < 500; i++) expect((await reader?.read())?.done).toBe(false);
    expect(received()).toBeGreaterThan(before);
    await reader?.cancel();
  });
});

describe('an upstream that fails', () => {
  it.each([
    ['hangs up before it answers', 'hangs-up', 502, 'upstream_interrupted'],
    ['speaks no HTTP', 'no-http', 502, 'upstream_interrupted'],
    ['redirects', 'elsewhere', 502, 'upstream_unusable'],
    ['never answers', 'silent', 504, 'upstream_timeout'],
  ])('and %s is reported by a status', async (_what, model, status, code) => {
    const setup = await setUp({ responseTimeoutMs: 200 });
    const asking = through(setup).chat.completions.create({ model, messages });
    expect(await failure(asking)).toMatchObject({ status, code, type: 'gateway_error' });
    expect(setup.gateway.usage.total).toMatchObject({ requests: 1, failed: 1 });
    await expect.poll(() => upstream.openExchanges).toBe(0);
  });

  it.each([
    ['dies', 'dies-in-stream', 'upstream_interrupted', true],
    ['falls silent', 'falls-silent', 'upstream_timeout', true],
    ['sends a line without end', 'endless-line', 'upstream_unusable', false],
  ])('and %s in mid-stream is reported after the data before it', async (_what, model, code, retryable) => {
    const setup = await setUp({ idleTimeoutMs: 200, maxEventLength: 100_000 });
    const stream = await through(setup).chat.completions.create({ model, messages, stream: true });
    let parts = 0;
    const reading = (async () => {
      for await (const _chunk of stream) parts++;
    })();
    const error = await reading.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({ code, retryable, side: 'remote' });
    // The end of the last whole event is lost together with the data after it.
    expect(parts).toBeGreaterThanOrEqual(3);
    await expect.poll(() => upstream.openExchanges).toBe(0);
  });

  it('and is down is reported by a status, after retries', async () => {
    const setup = await setUp({ maxRetries: 1, maxRetryDelayMs: 5 });
    await upstream.stop();
    const asking = through(setup).chat.completions.create({ model: 'gpt-4o', messages });
    expect(await failure(asking)).toMatchObject({ status: 502, code: 'upstream_unreachable' });
  });

  it('with a body that is not JSON is forwarded for the SDK to handle', async () => {
    const setup = await setUp();
    const text = async (client: OpenAI) =>
      (await client.chat.completions.create({ model: 'no-json', messages }).asResponse()).text();
    expect(await text(through(setup))).toBe(await text(direct()));
  });
});

describe('an upstream that is busy', () => {
  it('is left to the client', async () => {
    const setup = await setUp();
    expect(
      await failure(through(setup).chat.completions.create({ model: 'twice-busy', messages })),
    ).toMatchObject({ status: 503 });
    expect(upstream.requests).toHaveLength(1);
  });

  it('is retried after the delay that it states, with the same request, if it is allowed', async () => {
    const setup = await setUp({ maxRetries: 2 });
    const { choices } = await through(setup).chat.completions.create({ model: 'twice-busy', messages });
    expect(choices).toHaveLength(1);
    expect(upstream.requests).toHaveLength(3);
    expect(new Set(upstream.requests.map(({ body }) => body)).size).toBe(1);
  });

  it('is retried no more often than allowed', async () => {
    const setup = await setUp({ maxRetries: 1 });
    expect(
      await failure(through(setup).chat.completions.create({ model: 'twice-busy', messages })),
    ).toMatchObject({
      status: 503,
    });
    expect(upstream.requests).toHaveLength(2);
  });

  it('for longer than allowed is asked once', async () => {
    const setup = await setUp({ maxRetries: 2 });
    await failure(through(setup).chat.completions.create({ model: 'status-429', messages }));
    expect(upstream.requests).toHaveLength(1);
  });

  it('is not retried once the client has left', async () => {
    const setup = await setUp({ maxRetries: 2, maxRetryDelayMs: 60_000 });
    const controller = new AbortController();
    const asking = through(setup).chat.completions.create(
      { model: 'status-429', messages },
      { signal: controller.signal },
    );
    await expect.poll(() => upstream.requests.length).toBe(1);
    controller.abort();
    await expect(asking).rejects.toThrow(OpenAI.APIUserAbortError);
    await expect.poll(() => setup.gateway.usage.total.cancelled).toBe(1);
    expect(upstream.requests).toHaveLength(1);
  });
});

describe('the key', () => {
  it('is sent to the upstream, and is in no frame, log or message, even if the upstream reveals it', async () => {
    const logged: string[] = [];
    const note = (...args: unknown[]) =>
      logged.push(
        JSON.stringify(args, (_name, value) => (value instanceof Error ? inspected(value) : value)),
      );
    const logger = { debug: note, info: note, warn: note, error: note };
    const seen: string[] = [];
    const setup = await setUp({ logger, idleTimeoutMs: 200, responseTimeoutMs: 200 }, { logger });
    const watching = await connect(`ws://127.0.0.1:${setup.proxy.port}/session`, {
      WebSocket: watched(seen),
      algorithms: ['NONE'],
    });
    open.push(watching);
    const client = through({ session: watching });
    const told: unknown[] = [];
    for (const stream of [false, true]) {
      for (const model of ['tells-the-key', 'status-401', 'hangs-up', 'silent', 'dies-in-stream']) {
        const asking = client.chat.completions.create({ model, messages, stream });
        await asking
          .then(async (answer) =>
            told.push(stream ? await collect(answer as AsyncIterable<unknown>) : answer),
          )
          .catch((error: unknown) => told.push(inspected(error)));
      }
    }
    expect(upstream.requests.every(({ headers }) => headers.authorization === `Bearer ${KEY}`)).toBe(true);
    expect(upstream.requests.length).toBeGreaterThanOrEqual(10);
    const everything = [...seen, ...logged, JSON.stringify(told)].join('\n');
    expect(everything).toContain('[hidden]');
    expect(everything).toContain('Incorrect API key');
    expect(everything).not.toContain(KEY);
    // Every line has an event name for programs, and contains no payload.
    const lines = logged.map((line) => JSON.parse(line) as [{ event: string; err?: object }, string]);
    expect(lines.map(([{ event }]) => event)).toContain('gateway.failed');
    for (const [{ event, err }] of lines) {
      expect(event).toMatch(/^[a-z]+\.[a-z]+$/);
      if (err !== undefined) expect(err).toMatchObject({ type: expect.any(String), at: expect.any(Array) });
    }
  });

  it('of the client stays with the client', async () => {
    const seen: string[] = [];
    const setup = await setUp();
    const session = await connect(`ws://127.0.0.1:${setup.proxy.port}/session`, {
      WebSocket: watched(seen),
      algorithms: ['NONE'],
    });
    open.push(session);
    const client = new OpenAI({
      baseURL: 'http://parlance/v1',
      apiKey: 'sk-mine-0123456789',
      fetch: session.fetch,
    });
    await client.chat.completions.create({ model: 'gpt-4o', messages });
    expect(seen.join('\n')).toContain('/v1/chat/completions');
    expect(seen.join('\n')).not.toContain('sk-mine');
  });

  it('may be requested for each call, and a failure is reported', async () => {
    const keys = ['sk-first-0123456789', 'sk-second-0123456789'];
    const setup = await setUp({
      apiKey: async () => keys.shift() ?? Promise.reject(new Error('the vault is closed')),
    });
    const ask = () => through(setup).chat.completions.create({ model: 'gpt-4o', messages });
    await ask();
    await ask();
    expect(upstream.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer sk-first-0123456789',
      'Bearer sk-second-0123456789',
    ]);
    expect(await failure(ask())).toMatchObject({ status: 502, code: 'upstream_unreachable' });
  });
});

describe('models', () => {
  const authenticate: ServerOptions['authenticate'] = ({ token }) => ({ principal: token ?? '' });
  const models = ({ principal }: { principal: string | undefined }) =>
    principal === 'alice' ? ['gpt-4o-mini', 'text-*'] : [];

  it('that a principal may not use are refused before the upstream sees the request', async () => {
    const setup = await setUp({ models }, { authenticate });
    const ask = (model: string) => through(setup).chat.completions.create({ model, messages });
    await ask('gpt-4o-mini');
    await ask('text-anything');
    for (const model of ['gpt-4o', 'gpt-4o-mini-2', ''])
      expect(await failure(ask(model))).toMatchObject({ status: 403, code: 'model_not_allowed' });
    expect(upstream.requests).toHaveLength(2);
    expect(setup.gateway.usage.principals.get('alice')).toMatchObject({ requests: 5, failed: 3 });
  });

  it('are read from an M2M header, and from the body after it', async () => {
    const setup = await setUp({ models }, { authenticate });
    const ask = (model: string) =>
      setup.session.request({ model, messages, pad: 'x'.repeat(200) }, { algorithm: 'M2M' });
    expect((await ask('gpt-4o-mini')).json()).toMatchObject({ model: 'gpt-4o-mini' });
    await expect(ask('gpt-4o')).rejects.toMatchObject({ code: 'model_not_allowed' });
  });

  it('that are named twice, or not at all, are refused', async () => {
    const setup = await setUp({ models }, { authenticate });
    for (const body of [
      '{"model":"gpt-4o-mini","model":"gpt-4o"}',
      '{"model":"gpt-4o","mod\\u0065l":"gpt-4o-mini"}',
      '{"messages":[]}',
      '["model"]',
      'no JSON at all',
    ]) {
      const response = await setup.session.fetch('/v1/chat/completions', { method: 'POST', body });
      expect([body, response.status]).toEqual([body, 400]);
      expect(await response.json()).toMatchObject({ error: { code: 'bad_request' } });
    }
    const nested = '{"model":"gpt-4o-mini","messages":[{"model":"gpt-4o"}],"x":"\\"model\\":"}';
    const response = await setup.session.fetch('/v1/chat/completions', { method: 'POST', body: nested });
    expect(response.status).toBe(200);
  });
});

describe('usage', () => {
  it('is counted by principal, and reported for each request', async () => {
    const records: unknown[] = [];
    const setup = await setUp(
      { onUsage: (record) => records.push(record) },
      { authenticate: ({ token }) => ({ principal: token ?? '', agentId: 'scout' }) },
    );
    const client = through(setup);
    await client.chat.completions.create({ model: 'gpt-4o', messages });
    await collect(await client.chat.completions.create({ model: 'gpt-4o', messages, stream: true }));
    await client.responses.create({ model: 'gpt-4o', input: 'x', stream: true }).then(collect);
    await client.embeddings.create({ model: 'text-embedding-3-small', input: ['a', 'b', 'c'] });
    await failure(client.chat.completions.create({ model: 'status-500', messages }));
    await expect.poll(() => records.length).toBe(5);
    expect(setup.gateway.usage.principals.get('alice')).toEqual(setup.gateway.usage.total);
    expect(setup.gateway.usage.total).toMatchObject({
      requests: 5,
      failed: 0,
      cancelled: 0,
      // The streamed chat did not request its usage, and the error had none.
      unmetered: 2,
      promptTokens: 19 + 36 + 24,
      completionTokens: 31 + 87,
    });
    expect(records[1]).toMatchObject({
      principal: 'alice',
      agentId: 'scout',
      endpoint: '/chat/completions',
      model: 'gpt-4o',
      status: 200,
      outcome: 'completed',
      tokens: undefined,
      requestBytes: Buffer.byteLength(upstream.requests[1]?.body ?? ''),
    });
    expect(records[4]).toMatchObject({ status: 500, outcome: 'completed' });
  });
});

describe('without an HTTP head', () => {
  it('a request is a chat completion, and its reply the body', async () => {
    const { session } = await setUp();
    const whole = await session.request({ model: 'gpt-4o', messages });
    expect(whole.json()).toMatchObject({ object: 'chat.completion' });
    const parts = await collect(session.stream({ model: 'gpt-4o', messages, stream: true }));
    const texts = parts.map(({ text }) => text).filter((text) => text !== '');
    expect(texts.at(-1)).toBe('[DONE]');
    expect(JSON.parse(texts[0] ?? '')).toMatchObject({ object: 'chat.completion.chunk' });
  });

  it('an error of the upstream is an error', async () => {
    const { session } = await setUp();
    await expect(session.request({ model: 'status-429', messages })).rejects.toMatchObject({
      code: 'upstream_status',
      message: 'Rate limit reached.',
      retryable: true,
      retryAfterMs: 20_000,
      data: { status: 429, error: { code: 'rate_limit_exceeded' } },
    });
    await expect(session.request({ model: 'hangs-up', messages })).rejects.toMatchObject({
      code: 'upstream_interrupted',
    });
  });
});

describe('session.fetch', () => {
  const codeOf = (asking: Promise<unknown>) => asking.then(String, (error: ProtocolError) => error.code);

  it('reports what it does not carry', async () => {
    const { session } = await setUp();
    const url = 'http://parlance/v1/chat/completions';
    // Forms, files and streams are bodies: see http.test.ts and gateway-files.test.ts.
    const body = new Map() as unknown as BodyInit;
    await expect(session.fetch(url, { method: 'POST', body })).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('Map'),
    });
    expect(await codeOf(session.fetch(url, { method: 'TRACE' }))).toBe('unsupported');
    expect(await codeOf(session.fetch('ftp://parlance/x'))).toBe('unsupported');
    expect(await codeOf(session.fetch('http://['))).toBe('invalid_argument');
    expect(await codeOf(session.fetch(url, { method: 'GET', body: 'x' }))).toBe('invalid_argument');
    expect(await codeOf(session.fetch(url, { method: 'POST', headers: { x: 'y'.repeat(5000) } }))).toBe(
      'invalid_argument',
    );
    expect(upstream.requests).toEqual([]);
  });

  it('returns 404 for paths that the gateway does not serve', async () => {
    const { session } = await setUp();
    const client = through({ session });
    expect(await failure(client.batches.list())).toMatchObject({ status: 404, code: 'unknown_path' });
    const got = await session.fetch('/v1/chat/completions');
    expect([got.status, got.ok, got.url]).toEqual([405, false, 'http://session/v1/chat/completions']);
  });

  it('takes what fetch takes', async () => {
    const { session } = await setUp();
    const body = JSON.stringify({ model: 'gpt-4o', messages });
    const url = 'https://api.example/any/prefix/v1/chat/completions?api-version=1';
    const bytes = new TextEncoder().encode(body);
    for (const asking of [
      session.fetch(url, { method: 'post', body }),
      session.fetch(new URL(url), { method: 'POST', body: bytes }),
      session.fetch(url, { method: 'POST', body: bytes.buffer }),
      session.fetch(new Request(url, { method: 'POST', body })),
      session.fetch(new Request(url, { method: 'POST', body: 'other' }), { body }),
    ]) {
      expect(await (await asking).json()).toMatchObject({ object: 'chat.completion' });
    }
    expect(upstream.requests.map((request) => [request.path, request.body])).toEqual(
      Array(5).fill(['/v1/chat/completions', body]),
    );
  });

  it("forwards only certain headers, with the gateway's own key and organization", async () => {
    const { session } = await setUp({ headers: { 'openai-organization': 'org-ours' } });
    await session.fetch('/v1/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ model: 'gpt-4o', messages }),
      headers: {
        authorization: 'Bearer mine',
        cookie: 'a=b',
        'openai-organization': 'org-theirs',
        'openai-beta': 'assistants=v2',
        'idempotency-key': 'once',
        'x-other': 'y',
      },
    });
    const [{ headers } = expect.fail('the upstream received no request')] = upstream.requests;
    expect(headers).toMatchObject({
      authorization: `Bearer ${KEY}`,
      'openai-organization': 'org-ours',
      'openai-beta': 'assistants=v2',
      'idempotency-key': expect.stringMatching(/^[0-9a-f]{64}$/),
      'content-type': 'application/json',
    });
    expect(headers).not.toHaveProperty('cookie');
    expect(headers).not.toHaveProperty('x-other');
  });

  it('reacts to an abort before, during and after', async () => {
    const { session } = await setUp();
    const body = JSON.stringify({ model: 'silent', messages });
    const reason = new Error('enough');
    await expect(
      session.fetch('/v1/chat/completions', { method: 'POST', body, signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason);
    expect(upstream.requests).toEqual([]);
    const controller = new AbortController();
    const asking = session.fetch('/v1/chat/completions', { method: 'POST', body, signal: controller.signal });
    await expect.poll(() => upstream.openExchanges).toBe(1);
    controller.abort(reason);
    await expect(asking).rejects.toBe(reason);
    await expect.poll(() => upstream.openExchanges).toBe(0);
    const later = new AbortController();
    const response = await session.fetch('/v1/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ model: 'endless', stream: true, messages }),
      signal: later.signal,
    });
    const reader = response.body?.getReader();
    await reader?.read();
    later.abort('any value');
    await expect(reader?.read()).rejects.toBe('any value');
    await expect.poll(() => upstream.openExchanges).toBe(0);
  });

  it('needs a server that answers HTTP', async () => {
    const server = createServer({ onRequest: () => 'not a response' });
    open.push(server);
    const { url } = await server.listen();
    const session = await connect(url, { WebSocket });
    open.push(session);
    await expect(session.fetch('/v1/chat/completions', { method: 'POST', body: '{}' })).rejects.toMatchObject(
      {
        code: 'unsupported',
        message: expect.stringContaining('createOpenAIGateway'),
      },
    );
    await expect.poll(() => session.stats().openStreams).toBe(0);
  });
});

describe('options', () => {
  it.each([
    ['an unknown one', { baseURL: 'x' }],
    ['an invalid URL', { baseUrl: 'api.openai.com/v1' }],
    ['a URL of another kind', { baseUrl: 'ftp://x/v1' }],
    ['a URL with credentials', { baseUrl: 'https://u:p@x/v1' }],
    ['a key with a line end', { apiKey: `${KEY}\n` }],
    ['a header with a line end', { headers: { 'api-key': `${KEY}\nx` } }],
    ['retries that are not a count', { maxRetries: -1 }],
    ['a timeout of 0', { idleTimeoutMs: 0 }],
  ])('refuse %s, without repeating secrets', (_what, given) => {
    const create = () => createOpenAIGateway({ baseUrl: 'http://x/v1', ...(given as object) });
    expect(create).toThrow(ProtocolError);
    expect(create).toThrow(expect.objectContaining({ code: 'invalid_option' }));
    expect(create).not.toThrow(KEY);
  });
});

it('opens a connection to the upstream when a session begins, and uses it', async () => {
  let connections = 0;
  const counting = createHttpServer((_request, response) => void response.end('{}'));
  counting.on('connection', () => connections++);
  counting.listen(0, '127.0.0.1');
  await once(counting, 'listening');
  open.push({
    async [Symbol.asyncDispose]() {
      counting.closeAllConnections();
      counting.close();
    },
  });
  const { port } = counting.address() as AddressInfo;
  const { session } = await setUp({ baseUrl: `http://127.0.0.1:${port}/v1` });
  await expect.poll(() => connections).toBe(1);
  await session.fetch('/v1/chat/completions', { method: 'POST', body: '{"model":"m"}' });
  expect(connections).toBe(1);
});

/** A WebSocket that records its traffic, as far as it is readable. */
function watched(seen: string[]) {
  return class extends WebSocket {
    constructor(address: string, protocols: string[]) {
      super(address, protocols);
      this.on('message', (data: Buffer) => seen.push(data.toString('latin1')));
    }
    override send(data: unknown, ...rest: never[]): void {
      seen.push(Buffer.from(data as Uint8Array).toString('latin1'));
      super.send(data as Buffer, ...rest);
    }
  };
}

/** All texts of an error, its causes included. */
function inspected(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = Object.getOwnPropertyNames(error).map(
    (name) => `${name}: ${String(error[name as keyof Error])}`,
  );
  return [...own, error.stack, error.cause === undefined ? '' : inspected(error.cause)].join('\n');
}
