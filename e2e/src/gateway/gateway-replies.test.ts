import type { ClientSession } from '@parlance/client';
import { decodeHttpRequest, encodeHttpResponse } from '@parlance/protocol';
import { keptReplies, type ServerOptions } from '@parlance/server';
import { createOpenAIGateway, type OpenAIGatewayOptions } from '@parlance/server/openai';
import { DefaultChatTransport, type UIMessage, type UIMessageChunk } from 'ai';
import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers } from '../kit/peers.js';

/** Generations that outlive the page that asked: the gateway keeps them, and `session.fetch` follows them. */

let peers = createPeers();
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

/** The token is the principal. */
const byToken: ServerOptions['authenticate'] = ({ token }) =>
  token === undefined ? null : { principal: token };
const utf8 = new TextEncoder();

/** An upstream whose events the test sends one by one. */
function createUpstream(init: ResponseInit = {}) {
  let events: ReadableStreamDefaultController<Uint8Array> | undefined;
  const calls: { body: string; signal: AbortSignal }[] = [];
  const fetch: typeof globalThis.fetch = async (_url, request) => {
    calls.push({
      body: new TextDecoder().decode(request?.body as Uint8Array),
      signal: request?.signal as AbortSignal,
    });
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        events = controller;
      },
    });
    const headers = { 'content-type': 'text/event-stream; charset=utf-8', 'x-request-id': 'req_1' };
    return new Response(body, { status: 200, headers, ...init });
  };
  return {
    fetch,
    calls,
    send: (...texts: readonly string[]) => {
      for (const text of texts) events?.enqueue(utf8.encode(text));
    },
    end: () => events?.close(),
  };
}

const PIECES = ['The ', 'Grüße ', '世界 ', '👩‍👩‍👧', ' 🦀', 'end'];
const EVENTS = [
  ...PIECES.map((content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`),
  'event: note\ndata: {"a":\ndata: 1}\n\n',
  'data: [DONE]\n\n',
];
const ASK = { method: 'POST', body: '{"model":"m","messages":[],"stream":true}' } as const;
const PATH = 'http://session/v1/chat/completions';

async function setUp(
  options: Partial<OpenAIGatewayOptions> = { keep: true },
  serverOptions: ServerOptions = {},
) {
  const upstream = createUpstream();
  const gateway = createOpenAIGateway({ baseUrl: 'http://up/v1', fetch: upstream.fetch, ...options });
  const { url, server } = await peers.serve({
    authenticate: byToken,
    onRequest: gateway,
    ...serverOptions,
  });
  const dial = async (token = 'ada', more = {}) =>
    (await peers.dial(url, { token, ...more })) as ClientSession;
  return { upstream, server, dial };
}

const follow = (session: ClientSession, reply: string, after?: number, signal?: AbortSignal) =>
  session.fetch(PATH, {
    headers: { 'x-parlance-follow': reply, ...(after !== undefined && { 'x-parlance-after': `${after}` }) },
    ...(signal && { signal }),
  });

const readerOf = (response: Response) => (response.body as ReadableStream<Uint8Array>).getReader();

/** Reads this many events. */
async function readEvents(reader: ReadableStreamDefaultReader<Uint8Array>, count: number): Promise<string[]> {
  const events: string[] = [];
  while (events.length < count) events.push(new TextDecoder().decode((await reader.read()).value));
  return events;
}

const position = (response: Response) => Number(response.headers.get('x-parlance-after'));

describe('a kept generation', () => {
  it('continues without its page, and is followed from the event after the last one that was read', async () => {
    const { upstream, server, dial } = await setUp();
    const page = await dial();
    const response = await Promise.all([
      page.fetch(PATH, ASK),
      expect.poll(() => upstream.calls.length).toBe(1),
    ]).then(([answered]) => answered);
    const id = response.headers.get('x-parlance-reply') as string;
    expect(id).toMatch(/^reply_[A-Za-z0-9]{22}$/);
    upstream.send(...EVENTS.slice(0, 3));
    expect(await readEvents(readerOf(response), 2)).toEqual(EVENTS.slice(0, 2));
    const stored = position(response) + 2;
    await page.close();
    await expect.poll(() => server.sessions.size).toBe(0);
    expect(upstream.calls[0]?.signal.aborted).toBe(false);

    const next = await dial();
    const again = await follow(next, id, stored);
    expect(again.status).toBe(200);
    expect(again.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(again.headers.get('x-request-id')).toBe('req_1');
    expect(again.headers.get('x-parlance-reply')).toBe(id);
    expect(position(again)).toBe(stored);
    upstream.send(...EVENTS.slice(3));
    upstream.end();
    expect(await again.text()).toBe(EVENTS.slice(2).join(''));

    // From each event on, after the end.
    const whole = await follow(next, id);
    expect(await whole.text()).toBe(EVENTS.join(''));
    for (let read = 0; read <= EVENTS.length; read++) {
      const rest = await follow(next, id, position(whole) + read);
      expect(position(rest)).toBe(position(whole) + read);
      expect(await rest.text()).toBe(EVENTS.slice(read).join(''));
    }
    expect(upstream.calls).toHaveLength(1);
  });

  it('is followed before its first event, with its status at once', async () => {
    const { upstream, dial } = await setUp();
    const [page, phone] = [await dial(), await dial()];
    const response = await page.fetch(PATH, { ...ASK, headers: { 'x-parlance-reply-name': 'chat 7' } });
    const followed = await follow(phone, 'chat 7');
    expect([followed.status, position(followed)]).toEqual([200, position(response)]);
    upstream.send(...EVENTS);
    upstream.end();
    expect(await Promise.all([response.text(), followed.text()])).toEqual([EVENTS.join(''), EVENTS.join('')]);
  });

  it('is followed by the openai package, from the chunk after the last one that it counted', async () => {
    const { upstream, dial } = await setUp();
    const [page, phone] = [await dial(), await dial()];
    const clientOf = ({ fetch }: ClientSession) =>
      new OpenAI({ fetch, baseURL: 'http://session/v1', apiKey: 'unused', maxRetries: 0 });
    const { data, response } = await clientOf(page)
      .chat.completions.create({ model: 'm', messages: [], stream: true })
      .withResponse();
    const id = response.headers.get('x-parlance-reply') as string;
    upstream.send(...EVENTS.slice(0, 3));
    const chunks = data[Symbol.asyncIterator]();
    let [text, read] = ['', position(response)];
    for (; read < position(response) + 3; read++) {
      text += (await chunks.next()).value?.choices[0]?.delta.content;
    }
    await page.close();

    const rest = await clientOf(phone).get<AsyncIterable<OpenAI.ChatCompletionChunk>>('/chat/completions', {
      headers: { 'x-parlance-follow': id, 'x-parlance-after': String(read) },
      stream: true,
    });
    upstream.send(...EVENTS.slice(3, PIECES.length), 'data: [DONE]\n\n');
    upstream.end();
    for await (const chunk of rest) text += chunk.choices[0]?.delta.content;
    expect(text).toBe(PIECES.join(''));
  });

  it('keeps an error of the upstream with its status', async () => {
    const upstream = createUpstream({ status: 429, headers: { 'content-type': 'application/json' } });
    const { dial } = await setUp({ keep: true, fetch: upstream.fetch, maxRetries: 0 });
    const [page, phone] = [await dial(), await dial()];
    const asking = page.fetch(PATH, { ...ASK, headers: { 'x-parlance-reply-name': 'n' } });
    await expect.poll(() => upstream.calls.length).toBe(1);
    upstream.send('{"error":{"message":"slow down"}}');
    upstream.end();
    const response = await asking;
    const followed = await follow(phone, 'n');
    expect([response.status, followed.status]).toEqual([429, 429]);
    expect(await followed.text()).toBe(await response.text());
  });
});

describe('who stops a kept generation', () => {
  it('its requester by an abort, and each session of its principal by stop(), but not by an abort of following', async () => {
    const { upstream, dial } = await setUp();
    const [page, phone] = [await dial(), await dial()];
    const first = new AbortController();
    const response = await page.fetch(PATH, { ...ASK, signal: first.signal });
    const id = response.headers.get('x-parlance-reply') as string;
    upstream.send(EVENTS[0] as string);

    const following = new AbortController();
    const aborted = await follow(phone, id, 0, following.signal);
    const abortedReader = readerOf(aborted);
    expect(await readEvents(abortedReader, 1)).toEqual([EVENTS[0]]);
    following.abort('enough');
    await expect(abortedReader.read()).rejects.toBe('enough');
    const left = await follow(phone, id);
    await left.body?.cancel();
    await expect(follow(phone, id, 0, AbortSignal.abort('never'))).rejects.toBe('never');
    await expect.poll(() => phone.stats().openStreams).toBe(0);
    expect(upstream.calls[0]?.signal.aborted).toBe(false);

    const witness = await follow(phone, id);
    first.abort('leave');
    await expect.poll(() => upstream.calls[0]?.signal.aborted).toBe(true);
    await expect(witness.text()).rejects.toMatchObject({ code: 'cancelled' });

    const second = await page.fetch(PATH, ASK);
    const stopped = second.headers.get('x-parlance-reply') as string;
    upstream.send(EVENTS[0] as string);
    await phone.follow(stopped).stop();
    await expect.poll(() => upstream.calls[1]?.signal.aborted).toBe(true);
    const reader = readerOf(second);
    expect(await readEvents(reader, 1)).toEqual([EVENTS[0]]);
    await expect(reader.read()).rejects.toMatchObject({ code: 'cancelled' });
  });

  it('another principal can neither follow nor stop it', async () => {
    const { upstream, dial } = await setUp();
    const [page, eve] = [await dial(), await dial('eve')];
    const response = await page.fetch(PATH, { ...ASK, headers: { 'x-parlance-reply-name': 'n' } });
    const id = response.headers.get('x-parlance-reply') as string;
    for (const target of [id, 'n']) {
      const refused = await follow(eve, target);
      expect([refused.status, await refused.text()]).toEqual([204, '']);
      await expect(eve.follow(target).stop()).rejects.toMatchObject({ code: 'unknown_reply' });
    }
    upstream.send(...EVENTS);
    upstream.end();
    expect(await response.text()).toBe(EVENTS.join(''));
  });
});

describe('the option keep', () => {
  it('keeps streams alone, for which it says so, under the names that it or the client gives', async () => {
    const { upstream, dial } = await setUp({
      keep: (request) => (request.text.includes('"keep"') ? { name: 'mine' } : request.text.includes('"m"')),
    });
    const page = await dial();
    const ask = async (body: string) => {
      const answered = page.fetch(PATH, {
        method: 'POST',
        body,
        headers: { 'x-parlance-reply-name': 'theirs' },
      });
      const asked = upstream.calls.length + 1;
      await expect.poll(() => upstream.calls.length).toBe(asked);
      upstream.send(EVENTS[0] as string);
      upstream.end();
      const response = await answered;
      await response.text();
      return response.headers.get('x-parlance-reply');
    };
    const named = await ask('{"model":"keep","stream":true}');
    const byClient = await ask('{"model":"m","stream":true}');
    for (const body of [
      '{"model":"m"}',
      '{"model":"m","stream":false}',
      '{"model":"m","x":{"stream":true}}',
      '{"model":"other","stream":true}',
    ]) {
      expect(await ask(body), body).toBeNull();
    }
    expect((await page.replies()).map(({ id, name }) => [id, name])).toEqual(
      expect.arrayContaining([
        [named, 'mine'],
        [byClient, 'theirs'],
      ]),
    );
    expect(await page.replies()).toHaveLength(2);
  });

  it('is off by default: the name is ignored, and the upstream closes with the session', async () => {
    const { upstream, dial } = await setUp({});
    const page = await dial();
    const response = await page.fetch(PATH, { ...ASK, headers: { 'x-parlance-reply-name': 'reply_x' } });
    expect([response.status, response.headers.get('x-parlance-reply')]).toEqual([200, null]);
    expect(response.headers.get('x-parlance-after')).toBeNull();
    await page.close();
    await expect.poll(() => upstream.calls[0]?.signal.aborted).toBe(true);
  });

  it.each([['reply_x'], [''], ['x'.repeat(129)], ['ö'.repeat(65)]])(
    'answers the name %j with 400 in the shape of the API, before the upstream is asked',
    async (name) => {
      const { upstream, dial } = await setUp();
      const page = await dial();
      const response = await page.fetch(PATH, { ...ASK, headers: { 'x-parlance-reply-name': name } });
      expect(response.status).toBe(400);
      expect(await response.json()).toEqual({
        error: {
          type: 'gateway_error',
          code: 'bad_request',
          param: null,
          message: expect.stringContaining('x-parlance-reply-name'),
        },
      });
      expect(upstream.calls).toEqual([]);
    },
  );

  it.each([['x'.repeat(128)], ['ö'.repeat(64)]])('takes the longest name %j', async (name) => {
    const { upstream, dial } = await setUp();
    const page = await dial();
    const response = await page.fetch(PATH, { ...ASK, headers: { 'x-parlance-reply-name': name } });
    expect(response.headers.get('x-parlance-reply')).not.toBeNull();
    upstream.end();
    expect((await follow(page, name)).status).toBe(200);
  });

  it('sends what cannot be kept as usual, and logs it', async () => {
    const events: unknown[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (fields: object) => events.push(fields) };
    const faulty = () => {
      throw new Error('a fault of the application');
    };
    for (const [keep, replies] of [
      [faulty, {}],
      [{ ttlMs: -1 }, {}],
      [true, { maxBytes: 1 }],
    ] as const) {
      const { upstream, dial } = await setUp({ keep, logger }, { features: [keptReplies(replies)], logger });
      const page = await dial();
      const response = await page.fetch(PATH, ASK);
      upstream.send(...EVENTS);
      upstream.end();
      expect(response.headers.get('x-parlance-reply')).toBeNull();
      expect(await response.text()).toBe(EVENTS.join(''));
    }
    expect(events).toEqual(Array(3).fill(expect.objectContaining({ event: 'reply.unkept' })));
  });

  it('must be a flag, options or a function', () => {
    expect(() => createOpenAIGateway({ baseUrl: 'http://x', keep: 'yes' as never })).toThrow(
      expect.objectContaining({ code: 'invalid_option' }),
    );
  });
});

describe('session.fetch that follows', () => {
  it('gets 204 for an unknown reply with any method, and asks nothing of the handler', async () => {
    const { upstream, dial } = await setUp();
    const page = await dial();
    for (const method of ['GET', 'POST', 'OPTIONS']) {
      const response = await page.fetch('/any/where', { method, headers: { 'x-parlance-follow': 'n' } });
      expect([response.status, response.body, response.url]).toEqual([204, null, 'http://session/any/where']);
    }
    expect(upstream.calls).toEqual([]);
  });

  it('refuses what cannot be followed', async () => {
    const { dial } = await setUp();
    const page = await dial();
    for (const after of ['-1', '1.5', 'x', '', '9'.repeat(16)]) {
      const headers = { 'x-parlance-follow': 'n', 'x-parlance-after': after };
      await expect(page.fetch(PATH, { headers })).rejects.toMatchObject({ code: 'invalid_argument' });
    }
    const largest = { 'x-parlance-follow': 'n', 'x-parlance-after': '9'.repeat(15) };
    expect((await page.fetch(PATH, { headers: largest })).status).toBe(204);
    for (const reply of ['', 'x'.repeat(129)]) {
      await expect(follow(page, reply)).rejects.toMatchObject({ code: 'invalid_argument' });
    }
    const without = await dial('ada', { extensions: { replies: false } });
    await expect(follow(without, 'n')).rejects.toMatchObject({ code: 'unsupported' });
    // A name alone has no effect without the header that says what to follow.
    await expect(page.fetch('/nowhere', { headers: { 'x-parlance-after': '5' } })).resolves.toMatchObject({
      status: 404,
    });
  });

  it('refuses a reply that is not HTTP', async () => {
    const { url } = await peers.serve({
      authenticate: byToken,
      onRequest(_request, { keep }) {
        keep({ name: 'words' });
        return 'no status';
      },
    });
    const page = (await peers.dial(url, { token: 'ada' })) as ClientSession;
    await page.request('go');
    await expect(follow(page, 'words')).rejects.toMatchObject({ code: 'unsupported' });
  });

  it('lets the AI SDK resume a chat of any handler that answers HTTP', async () => {
    const chunks: UIMessageChunk[] = [
      { type: 'start', messageId: 'm1' },
      { type: 'text-start', id: 't' },
      ...PIECES.map((delta) => ({ type: 'text-delta', id: 't', delta }) as const),
      { type: 'text-end', id: 't' },
      { type: 'finish' },
    ];
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { url, server } = await peers.serve({
      authenticate: byToken,
      async *onRequest(_request, context) {
        const headers = decodeHttpRequest(context.metadata)?.headers;
        context.keep({ name: headers?.get('x-parlance-reply-name') });
        const head = new Map([['content-type', 'text/event-stream']]);
        context.setMetadata(encodeHttpResponse({ status: 200, headers: head }));
        for (const [i, chunk] of chunks.entries()) {
          if (i === 4) await gate;
          yield JSON.stringify(chunk);
        }
        yield '[DONE]';
      },
    });
    const dial = async () => (await peers.dial(url, { token: 'ada' })) as ClientSession;
    const transportOf = ({ fetch }: ClientSession) =>
      new DefaultChatTransport<UIMessage>({
        fetch,
        api: 'http://session/api/chat',
        prepareSendMessagesRequest: ({ id, messages }) => ({
          body: { messages },
          headers: { 'x-parlance-reply-name': id },
        }),
        prepareReconnectToStreamRequest: ({ id }) => ({ headers: { 'x-parlance-follow': id } }),
      });
    const ask = { chatId: 'chat-1', messages: [], abortSignal: undefined };
    const page = await dial();
    const asked = await transportOf(page).sendMessages({
      ...ask,
      trigger: 'submit-message',
      messageId: undefined,
    });
    const reader = asked.getReader();
    for (let i = 0; i < 3; i++) expect((await reader.read()).value).toEqual(chunks[i]);
    const next = await dial();
    await page.close();
    await reader.read().catch(() => {});
    await expect.poll(() => server.sessions.size).toBe(1);

    const transport = transportOf(next);
    expect(await transport.reconnectToStream({ chatId: 'chat-2' })).toBeNull();
    const resumed = await transport.reconnectToStream({ chatId: 'chat-1' });
    release();
    const got: UIMessageChunk[] = [];
    for await (const chunk of resumed as unknown as AsyncIterable<UIMessageChunk>) got.push(chunk);
    expect(got).toEqual(chunks);
  });
});
