import { createHash, randomBytes } from 'node:crypto';
import { type ClientOptions, type ClientSession, connect } from '@parlance/client';
import type { ErrorContext, FetchHandler, ServerOptions, ServerSession } from '@parlance/server';
import { RequestError } from '@parlance/server';
import { createParser } from 'eventsource-parser';
import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { streamSSE } from 'hono/streaming';
import { validator } from 'hono/validator';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, type Peers } from '../kit/peers.js';

/** HTTP in a session: fetch handlers at either end, over real sockets. */

let peers: Peers;
beforeEach(() => {
  peers = createPeers();
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
});

interface Pair {
  readonly client: ClientSession;
  readonly server: ServerSession;
}

/** A client and the session that its server has with it. */
async function pair(onServer: ServerOptions = {}, onClient: ClientOptions = {}): Promise<Pair> {
  let server: ServerSession | undefined;
  const { url } = await peers.serve({
    onSession: (session) => {
      server = session;
    },
    ...onServer,
  });
  const client = peers.use(await connect(url, { WebSocket, ...onClient }));
  await expect.poll(() => server).toBeDefined();
  return { client, server: server as ServerSession };
}

/** Each test runs with a handler of the server and again with one of the client. */
const directions: readonly [
  string,
  (onFetch: FetchHandler, more?: ServerOptions) => Promise<typeof fetch>,
][] = [
  ['client to server', async (onFetch, more) => (await pair({ onFetch, ...more })).client.fetch],
  [
    'server to client',
    async (onFetch, { onError = () => {}, logger } = {}) =>
      (await pair({}, { onFetch, onError, logger })).server.fetch,
  ],
];

const MIB = 1024 * 1024;

/** A stream of `count` chunks, and how much of it was produced. */
function producer(count: number, size = 64 * 1024) {
  const state = { produced: 0, cancelled: undefined as unknown };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (state.produced === count) return controller.close();
        controller.enqueue(new Uint8Array(size).fill(state.produced++ % 251));
      },
      cancel(reason) {
        state.cancelled = reason ?? 'cancelled';
      },
    },
    { highWaterMark: 0 },
  );
  return { body, state };
}

async function hashOf(body: ReadableStream<Uint8Array> | null): Promise<{ hash: string; length: number }> {
  const hash = createHash('sha256');
  let length = 0;
  for await (const chunk of body ?? []) {
    hash.update(chunk);
    length += chunk.length;
  }
  return { hash: hash.digest('hex'), length };
}

const upload = (body: BodyInit, more: RequestInit = {}): RequestInit => ({
  method: 'POST',
  body,
  ...more,
  ...({ duplex: 'half' } as RequestInit),
});

describe.each(directions)('%s', (_direction, serving) => {
  it('Hono answers', async () => {
    const app = new Hono();
    app.get('/books/:id', (c) => c.json({ id: c.req.param('id'), page: c.req.query('page') }));
    app.put('/books/:id', async (c) => c.text(`${c.req.param('id')}: ${await c.req.text()}`, 201));
    app.post(
      '/checked',
      validator('json', (value) => value as { a: number }),
      (c) => c.json({ twice: c.req.valid('json').a * 2 }),
    );
    app.delete('/books/:id', (c) => c.body(null, 204));
    app.get('/bytes', (c) => c.body(new Uint8Array([0, 255, 128, 10]), 200, { 'content-type': 'image/png' }));
    app.get('/elsewhere', (c) => c.redirect('/books/1'));
    app.get('/wrong', () => {
      throw new Error('a secret');
    });
    app.onError((_error, c) => c.text('caught by Hono', 500));
    const fetch = await serving(app.fetch);

    const book = await fetch('http://any/books/%C3%A4%2F?page=2');
    expect(await book.json()).toEqual({ id: 'ä/', page: '2' });
    expect(book.headers.get('content-type')).toBe('application/json');
    const put = await fetch('/books/7', { method: 'PUT', body: 'Grüße' });
    expect([put.status, await put.text()]).toEqual([201, '7: Grüße']);
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"a":21}' };
    expect(await (await fetch('/checked', init)).json()).toEqual({ twice: 42 });
    const gone = await fetch('/books/7', { method: 'DELETE' });
    expect([gone.status, gone.body]).toEqual([204, null]);
    const bytes = await fetch('/bytes');
    expect([...new Uint8Array(await bytes.arrayBuffer())]).toEqual([0, 255, 128, 10]);
    const head = await fetch('/bytes', { method: 'HEAD' });
    expect([head.status, head.headers.get('content-type'), head.body]).toEqual([200, 'image/png', null]);
    expect((await fetch('/elsewhere')).headers.get('location')).toBe('/books/1');
    expect(await (await fetch('/wrong')).text()).toBe('caught by Hono');
    expect(await (await fetch('/nothing')).text()).toBe('404 Not Found');
  });

  it('a reader of server-sent events gets them as they were written', async () => {
    const app = new Hono().get('/events', (c) =>
      streamSSE(c, async (stream) => {
        await stream.write(': a comment\n\nretry: 10\n\n');
        await stream.writeSSE({ data: 'one' });
        await stream.writeSSE({ event: 'named', id: '7', data: 'two\nlines' });
        await stream.writeSSE({ data: 'data: like a field' });
        await stream.write('data: Gr');
        await stream.write('üße\r\n\r');
        await stream.write('\ndata\n\ndata: last\r\r');
      }),
    );
    const fetch = await serving(app.fetch);
    const response = await fetch('/events', { headers: { accept: 'text/event-stream' } });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const events: object[] = [];
    const parser = createParser({ onEvent: ({ event, id, data }) => events.push({ event, id, data }) });
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) parser.feed(decoder.decode(chunk, { stream: true }));
    const unnamed = { event: undefined, id: undefined };
    expect(events).toEqual([
      { ...unnamed, data: 'one' },
      { event: 'named', id: '7', data: 'two\nlines' },
      { ...unnamed, data: 'data: like a field' },
      { ...unnamed, data: 'Grüße' },
      { ...unnamed, data: '' },
      { ...unnamed, data: 'last' },
    ]);
  });

  it('the first event arrives before the second is written, and the status before both', async () => {
    const written: ReadableStreamDefaultController<Uint8Array>[] = [];
    const fetch = await serving(() => {
      const body = new ReadableStream<Uint8Array>({ start: (controller) => void written.push(controller) });
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
    });
    const response = await fetch('/events');
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    for (const word of ['one', 'two']) {
      written[0]?.enqueue(Buffer.from(`data: ${word}\n\n`));
      const { value } = await reader.read();
      expect(Buffer.from(value ?? []).toString()).toBe(`data: ${word}\n\n`);
    }
    written[0]?.close();
    expect((await reader.read()).done).toBe(true);
  });

  it('takes every body that fetch takes, with its content type', async () => {
    const fetch = await serving(async (request) => {
      const bytes = Buffer.from(await request.arrayBuffer());
      return Response.json({ type: request.headers.get('content-type'), hex: bytes.toString('hex') });
    });
    const bytes = new Uint8Array([1, 255, 0, 200]);
    const hex = '01ff00c8';
    const sent: readonly [BodyInit, { type: unknown; hex: string }][] = [
      ['ä', { type: 'text/plain;charset=UTF-8', hex: 'c3a4' }],
      [
        new URLSearchParams({ a: 'ü' }),
        {
          type: 'application/x-www-form-urlencoded;charset=UTF-8',
          hex: Buffer.from('a=%C3%BC').toString('hex'),
        },
      ],
      [bytes, { type: 'application/octet-stream', hex }],
      [bytes.buffer, { type: 'application/octet-stream', hex }],
      [new DataView(bytes.buffer, 1, 2), { type: 'application/octet-stream', hex: 'ff00' }],
      [new Blob([bytes], { type: 'audio/x' }), { type: 'audio/x', hex }],
      [new Blob([bytes]).stream(), { type: 'application/octet-stream', hex }],
    ];
    for (const [body, expected] of sent)
      expect(await (await fetch('/', upload(body))).json()).toEqual(expected);
    const typed = upload(new Blob([bytes]).stream(), { headers: { 'content-type': 'video/y' } });
    expect(await (await fetch('/', typed)).json()).toEqual({ type: 'video/y', hex });
    const request = new Request('http://any/', upload(new Blob([bytes]).stream()));
    expect(await (await fetch(request)).json()).toMatchObject({ hex });
    expect(await (await fetch('/', { method: 'POST' })).json()).toEqual({ type: null, hex: '' });
  });

  it.each([20_000, 3 * MIB])('a form with a file of %i bytes arrives as it was', async (size) => {
    const fetch = await serving(async (request) => {
      const form = await request.formData();
      const file = form.get('file') as File;
      return Response.json({
        name: file.name,
        type: file.type,
        text: form.get('text'),
        ...(await hashOf(file.stream())),
      });
    });
    const content = randomBytes(size);
    const form = new FormData();
    form.set('file', new File([content], 'Lärm "1".mp3', { type: 'audio/mpeg' }));
    form.set('text', 'Grüße\r\n');
    const response = await fetch('/', { method: 'POST', body: form });
    const expected = { name: 'Lärm "1".mp3', type: 'audio/mpeg', text: 'Grüße\r\n' };
    const hash = createHash('sha256').update(content).digest('hex');
    expect(await response.json()).toEqual({ ...expected, hash, length: size });
  });

  it('carries 40 MiB each way, which no message can', async () => {
    const fetch = await serving(async (request) => {
      const { hash } = await hashOf(request.body);
      const { body } = producer(640);
      return new Response(body, { headers: { 'x-hash': hash } });
    }, UNPACED);
    const response = await fetch('/', upload(producer(640).body));
    const expected = await hashOf(producer(640).body);
    expect(response.headers.get('x-hash')).toBe(expected.hash);
    expect(await hashOf(response.body)).toEqual(expected);
  });

  it('bytes beyond the limit of a message are streamed', async () => {
    const fetch = await serving(async (request) => Response.json(await hashOf(request.body)), UNPACED);
    const bytes = randomBytes(17 * MIB);
    const response = await fetch('/', { method: 'POST', body: bytes });
    expect(await response.json()).toMatchObject({ hash: createHash('sha256').update(bytes).digest('hex') });
  });

  it('a slow reader of a response stops its producer', async () => {
    const { body, state } = producer(1000);
    const fetch = await serving(() => new Response(body));
    const response = await fetch('/');
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    // The windows of the two ends, and what is being written.
    const most = (4 * MIB) / (64 * 1024);
    await expectStandstill(() => state.produced);
    expect(state.produced).toBeLessThan(most);
    await reader.cancel('enough');
    await expect.poll(() => state.cancelled).toBeDefined();
  });

  it('a slow reader of a request stops its producer, and one that leaves cancels it', async () => {
    const { body, state } = producer(1000);
    let finish = (_response: Response): void => {};
    let began = false;
    const fetch = await serving(async (request) => {
      await (request.body as ReadableStream<Uint8Array>).getReader().read();
      began = true;
      return await new Promise<Response>((resolve) => {
        finish = resolve;
      });
    });
    const asking = fetch('/', upload(body));
    await expect.poll(() => began).toBe(true);
    await expectStandstill(() => state.produced);
    expect(state.produced).toBeLessThan((4 * MIB) / (64 * 1024));
    finish(new Response('read enough'));
    expect(await (await asking).text()).toBe('read enough');
    await expect.poll(() => state.cancelled).toBeDefined();
  });

  it('a body that the handler does not read is not produced', async () => {
    const { body, state } = producer(5);
    const fetch = await serving(() => new Response('no, thanks', { status: 413 }));
    const response = await fetch('/', upload(body));
    expect([response.status, await response.text()]).toEqual([413, 'no, thanks']);
    expect(state.produced).toBe(0);
    await expect.poll(() => state.cancelled).toBeDefined();
  });

  it('both bodies stream at once', async () => {
    const fetch = await serving((request) => {
      const upper = new TransformStream<Uint8Array, Uint8Array>({
        transform: (chunk, controller) =>
          controller.enqueue(Buffer.from(Buffer.from(chunk).toString().toUpperCase())),
      });
      return new Response(request.body?.pipeThrough(upper) ?? null);
    });
    let feed: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        feed = controller;
      },
    });
    const response = await fetch('/', upload(body));
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    for (const word of ['one', 'two', 'three']) {
      feed?.enqueue(Buffer.from(word));
      expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe(word.toUpperCase());
    }
    feed?.close();
    expect((await reader.read()).done).toBe(true);
  });

  it('an abort reaches request.signal and the producer of the body', async () => {
    const seen: unknown[] = [];
    let began = 0;
    const fetch = await serving(async (request) => {
      began++;
      request.signal.addEventListener('abort', () => seen.push('aborted'));
      await request.body?.getReader().read();
      return await new Promise<Response>(() => {});
    });
    const controller = new AbortController();
    const { body, state } = producer(1000);
    const asking = fetch('/', upload(body, { signal: controller.signal }));
    await expect.poll(() => began).toBe(1);
    await expect.poll(() => state.produced).toBeGreaterThan(0);
    controller.abort(new Error('changed my mind'));
    await expect(asking).rejects.toThrow('changed my mind');
    await expect.poll(() => seen).toEqual(['aborted']);
    await expect.poll(() => state.cancelled).toBeDefined();
  });

  it('a cancelled response reaches request.signal and the producer of its body', async () => {
    const { body, state } = producer(1000);
    let signal: AbortSignal | undefined;
    const fetch = await serving((request) => {
      signal = request.signal;
      return new Response(body);
    });
    const response = await fetch('/');
    await response.body?.cancel();
    await expect.poll(() => signal?.aborted).toBe(true);
    await expect.poll(() => state.cancelled).toBeDefined();
  });

  it('a body that fails fails the request at both ends, and never looks complete', async () => {
    const reads: unknown[] = [];
    const fetch = await serving(async (request) => {
      await request.text().then(
        () => reads.push('complete'),
        () => reads.push('failed'),
      );
      return new Response('read');
    });
    let chunks = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (++chunks > 3) throw new Error('the disk is broken');
        controller.enqueue(new Uint8Array(100));
      },
    });
    await expect(fetch('/', upload(body))).rejects.toThrow('the disk is broken');
    await expect.poll(() => reads).toEqual(['failed']);
  });

  it('a response that fails in the middle fails its reader, and is reported', async () => {
    const errors: unknown[] = [];
    const onError = (error: unknown) => void errors.push((error as Error).message);
    const fetch = await serving(
      () => {
        let chunks = 0;
        const body = new ReadableStream<Uint8Array>({
          pull(controller) {
            if (++chunks > 3) throw new Error('the database is gone');
            controller.enqueue(new Uint8Array(100));
          },
        });
        return new Response(body);
      },
      { onError },
    );
    const response = await fetch('/');
    expect(response.status).toBe(200);
    await expect(response.arrayBuffer()).rejects.toMatchObject({ code: 'internal' });
    await expect.poll(() => errors).toEqual(['the database is gone']);
  });

  const used = new Response('once');
  const read = new Response('once');
  const nothing = (value: unknown) => (() => value) as unknown as FetchHandler;
  it.each<[string, FetchHandler, string]>([
    ['throws', () => Promise.reject(new Error('db down')), 'db down'],
    ['throws nothing', () => Promise.reject(undefined), ''],
    ['returns nothing', nothing(undefined), 'not undefined'],
    ['returns null', nothing(null), 'not null'],
    ['returns a string', nothing('Hello'), 'not a string'],
    ['returns a plain object', nothing({ status: 200 }), 'not an Object'],
    ['returns status 101', nothing({ status: 101, headers: new Headers(), body: null }), 'status 101'],
    ['returns an error', () => Response.error(), 'status 0'],
    ['returns a status of another type', nothing({ status: '200', headers: new Headers() }), 'not an Object'],
    [
      'returns a response that was read',
      async () => {
        if (!read.bodyUsed) await read.text();
        return read;
      },
      'read already',
    ],
    [
      'returns a response that is being read',
      () => {
        if (used.body?.locked === false) used.body.getReader();
        return used;
      },
      'locked',
    ],
    [
      'returns a body that is no stream',
      nothing({ status: 200, headers: new Headers(), body: 'x' }),
      'not a stream',
    ],
    [
      'returns a getter that throws',
      nothing({
        status: 200,
        get headers() {
          throw new Error('no headers');
        },
      }),
      'no headers',
    ],
  ])(
    'a handler that %s is a 500 without details, and is reported in full',
    async (_what, onFetch, message) => {
      const errors: [string, ErrorContext][] = [];
      const onError = (error: unknown, context: ErrorContext) =>
        void errors.push([error instanceof Error ? error.message : '', context]);
      const fetch = await serving(onFetch, { onError });
      const response = await fetch('/');
      expect([response.status, await response.text()]).toEqual([500, 'Internal Server Error']);
      expect(errors).toHaveLength(1);
      expect(errors[0]?.[0]).toContain(message);
      expect(errors[0]?.[1]).toMatchObject({ event: 'request.failed' });
    },
  );

  it('a RequestError that the handler throws reaches the requester', async () => {
    const fetch = await serving(() => {
      throw new RequestError('quota_used', 'not today', { data: { left: 0 } });
    });
    await expect(fetch('/')).rejects.toMatchObject({ code: 'quota_used', data: { left: 0 } });
  });

  it('leaves out headers that cannot be sent, and says so once', async () => {
    const dropped: unknown[] = [];
    const note = (fields: Record<string, unknown>) => {
      if (fields['event'] === 'http.header_dropped') dropped.push(fields['header']);
    };
    const logger = { debug() {}, info() {}, warn: note, error() {} };
    const fetch = await serving(
      () =>
        new Response('x', {
          headers: [
            ['x-fine', 'yes'],
            ['x-long', 'y'.repeat(5000)],
            ['set-cookie', 'a=b'],
            ['set-cookie', 'c=d'],
            ['connection', 'close'],
            ['transfer-encoding', 'chunked'],
            ['content-encoding', 'gzip'],
            ['content-length', '999'],
            ['x!odd', 'name'],
            ...Array.from({ length: 70 }, (_, i): [string, string] => [`x-many-${i}`, 'v']),
          ],
        }),
      { logger },
    );
    for (let i = 0; i < 2; i++) {
      const { headers, status } = await fetch('/');
      expect([status, headers.get('x-fine')]).toEqual([200, 'yes']);
      expect([...headers]).toHaveLength(64);
      expect(headers.get('content-type')).toBe('text/plain;charset=UTF-8');
      for (const name of ['x-long', 'set-cookie', 'connection', 'content-encoding', 'content-length']) {
        expect(headers.get(name)).toBe(null);
      }
    }
    expect(dropped.slice(0, 1)).toEqual(['set-cookie']);
    expect(new Set(dropped).size).toBe(dropped.length);
    expect(dropped).toContain('x-long');
    expect(dropped).toContain('x!odd');
    expect(dropped).not.toContain('connection');
  });

  it('a body of nothing but empty chunks lets others work, and can be stopped', async () => {
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(0)),
    });
    const fetch = await serving((request) =>
      new URL(request.url).pathname === '/empty' ? new Response(body) : new Response('pong'),
    );
    const controller = new AbortController();
    const response = await fetch('/empty', { signal: controller.signal });
    const reading = response.text();
    expect(await (await fetch('/ping')).text()).toBe('pong');
    controller.abort();
    await expect(reading).rejects.toThrow();
  });

  it('answers malformed requests with 400', async () => {
    const { client, server } = await pair(
      { onFetch: () => new Response('x') },
      { onFetch: () => new Response('x') },
    );
    for (const session of [client, server]) {
      for (const http of [
        { method: 'GET' },
        { path: 'x' },
        { method: 'TRACE', path: '/' },
        { upload: { id: 0 } },
      ]) {
        const reply = await session.request('', { metadata: { http } });
        expect(reply.metadata).toMatchObject({ http: { status: 400 } });
      }
    }
  });

  it('sends no body to an end that has not asked, and only once', async () => {
    const { client, server } = await pair(
      { onFetch: async (request) => new Response(await request.text()) },
      {},
    );
    for (const session of [client, server]) {
      for (const pull of [1, 2, 999, -1, 'x']) {
        const asking = session.request('', { metadata: { http: { pull } } });
        await expect(asking).rejects.toMatchObject({ code: 'unknown_body' });
      }
    }
  });
});

const UNPACED: ServerOptions = { limits: { bytesPerSecond: Infinity } };

/** Resolves when a count has not changed for a while. */
async function expectStandstill(count: () => number): Promise<void> {
  let last = -1;
  await expect
    .poll(
      () => {
        const now = count();
        const isSame = now === last;
        last = now;
        return isSame && now > 0;
      },
      { interval: 200 },
    )
    .toBe(true);
}

describe('a server with onFetch', () => {
  it('gets streamed bodies up to maxTransferSize', async () => {
    const most = 300_000;
    const { client } = await pair({
      onFetch: async (request) => new Response(String((await request.arrayBuffer()).byteLength)),
      limits: { maxTransferSize: most },
    });
    const sent = async (size: number) => {
      const response = await client.fetch('/', upload(new Blob([new Uint8Array(size)]).stream()));
      return [response.status, await response.text()];
    };
    expect(await sent(most)).toEqual([200, String(most)]);
    expect(await sent(most + 1)).toEqual([413, `Content Too Large: at most ${most} bytes`]);
  });

  it('believes no length that the other end states', async () => {
    const app = new Hono();
    app.use(bodyLimit({ maxSize: 1_000 }));
    app.post('/', async (context) => context.text(String((await context.req.text()).length)));
    const { client } = await pair({ onFetch: app.fetch });
    const asked = async (size: number, headers: Record<string, string>) => {
      const http = { path: '/', headers };
      const reply = await client.request('x'.repeat(size), { metadata: { http } });
      return [reply.text, reply.metadata['http']];
    };
    expect((await asked(1_000, { 'content-length': '9999999999' }))[0]).toBe('1000');
    const refused = ['Payload Too Large', expect.objectContaining({ status: 413 })];
    expect(await asked(1_001, { 'content-length': '1' })).toEqual(refused);
    expect(await asked(1_001, { 'content-length': '1', 'transfer-encoding': 'chunked' })).toEqual(refused);
  });

  it('refuses forms of many fields before its handler parses them', async () => {
    const onFetch = async (request: Request) => new Response(String([...(await request.formData())].length));
    const { client } = await pair({ onFetch, limits: { maxMessageSize: 1024 * 1024 } });
    const sent = async (fields: number, isStreamed: boolean) => {
      const form = new FormData();
      for (let i = 0; i < fields; i++) form.append('name', String(i));
      const whole = new Request('http://x/', { method: 'POST', body: form });
      const type = { 'content-type': whole.headers.get('content-type') as string };
      const streamed = () => upload(whole.body as ReadableStream, { headers: type });
      const response = await client.fetch('/', isStreamed ? streamed() : { method: 'POST', body: form });
      return [response.status, await response.text()];
    };
    for (const isStreamed of [false, true]) {
      expect(await sent(1_000, isStreamed)).toEqual([200, '1000']);
      expect(await sent(1_001, isStreamed)).toEqual([413, 'Content Too Large: at most 1000 fields']);
    }
    const http = { path: '/', headers: { 'content-type': 'multipart/form-data; boundary=a; boundary=b' } };
    const reply = await client.request('', { metadata: { http } });
    expect([reply.text, reply.metadata['http']]).toEqual([
      'Bad Request: the boundary of the form is not plain',
      expect.objectContaining({ status: 400 }),
    ]);
  });

  it('calls a route handler in the style of Next.js', async () => {
    const route = {
      GET: (request: Request) => Response.json({ q: new URL(request.url).searchParams.get('q') }),
      async POST(request: Request) {
        const { name } = (await request.json()) as { name: string };
        return Response.json({ hello: name }, { status: 201 });
      },
    };
    const { client } = await pair({
      onFetch: (request) => {
        const handler = (route as Record<string, (request: Request) => Response | Promise<Response>>)[
          request.method
        ];
        return handler?.(request) ?? new Response(null, { status: 405 });
      },
    });
    expect(await (await client.fetch('/api/hello?q=x')).json()).toEqual({ q: 'x' });
    const init = { method: 'POST', body: JSON.stringify({ name: 'Ada' }) };
    expect(await (await client.fetch('/api/hello', init)).json()).toEqual({ hello: 'Ada' });
    expect((await client.fetch('/api/hello', { method: 'PUT' })).status).toBe(405);
  });

  it('gives the handler its session, principal and data, without a global', async () => {
    type Env = { Bindings: Parameters<FetchHandler<ServerSession>>[1] };
    const app = new Hono<Env>().get('/me', (c) =>
      c.json({ id: c.env.session.id, principal: c.env.principal, data: c.env.data }),
    );
    const { client, server } = await pair(
      { onFetch: app.fetch, authenticate: ({ token }) => ({ principal: token ?? '' }) },
      { token: 'alice' },
    );
    server.data = { plan: 'pro' };
    const got = await (await client.fetch('/me')).json();
    expect(got).toEqual({ id: client.id, principal: 'alice', data: { plan: 'pro' } });
  });

  it('answers other requests with onRequest, and says so without one', async () => {
    const { client } = await pair({ onFetch: () => new Response('http'), onRequest: () => 'plain' });
    expect((await client.request('x')).text).toBe('plain');
    expect(await (await client.fetch('/')).text()).toBe('http');
    const other = await pair({ onFetch: () => new Response('http') });
    await expect(other.client.request('x')).rejects.toMatchObject({ code: 'unsupported' });
  });

  it('handlers call each other across the session', async () => {
    const { client } = await pair(
      {
        onFetch: async (request, { session }) =>
          new Response(`server(${await (await (session as ServerSession).fetch(request.url)).text()})`),
      },
      { onFetch: (request) => new Response(`client(${new URL(request.url).pathname})`) },
    );
    expect(await (await client.fetch('/x')).text()).toBe('server(client(/x))');
  });

  it('streams continue when the connection is cut', async () => {
    const { port } = await peers.serve({
      onFetch: async (request) => new Response(request.body),
      limits: { bytesPerSecond: Infinity },
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const client = peers.use(
      await connect(`ws://127.0.0.1:${proxy.port}/session`, {
        WebSocket,
        reconnect: { minDelayMs: 5, maxDelayMs: 50 },
      }),
    );
    const { body, state } = producer(160);
    const response = await client.fetch('/', upload(body));
    const hash = hashOf(response.body);
    for (const at of [30, 90]) {
      await expect.poll(() => state.produced).toBeGreaterThan(at);
      proxy.cut();
    }
    expect(await hash).toEqual(await hashOf(producer(160).body));
    expect(client.state).toBe('established');
  });

  it('a page that loses its session loses the request, and the producer is stopped', async () => {
    const { client, server } = await pair({ onFetch: () => new Promise<Response>(() => {}) });
    const { body, state } = producer(1000);
    const asking = client.fetch('/', upload(body));
    asking.catch(() => {});
    await server.close();
    await expect(asking).rejects.toMatchObject({ code: 'session_closed' });
    await expect.poll(() => state.cancelled).toBeDefined();
  });
});

describe('session.fetch', () => {
  it('refuses to stream to an end that does not know how', async () => {
    const { client } = await pair({
      // As a gateway of an earlier version reads the head.
      onRequest: (_request, { metadata }) => {
        if (typeof (metadata['http'] as { path?: unknown }).path !== 'string')
          throw new RequestError('bad_request', 'no path');
        return 'read as empty';
      },
    });
    await expect(client.fetch('/', upload(producer(1).body))).rejects.toMatchObject({ code: 'bad_request' });
  });

  it('reports what fetch would not send', async () => {
    const { client } = await pair({ onFetch: () => new Response() });
    const odd = new Map() as unknown as BodyInit;
    await expect(client.fetch('/', { method: 'POST', body: odd })).rejects.toMatchObject({
      code: 'unsupported',
    });
    const stream = new ReadableStream();
    stream.getReader();
    await expect(client.fetch('/', upload(stream))).rejects.toThrow(TypeError);
    const words = new ReadableStream({ start: (controller) => controller.enqueue('text') });
    const handler = await pair({ onFetch: async (request) => new Response(await request.text()) });
    await expect(handler.client.fetch('/', upload(words))).rejects.toThrow(TypeError);
  });
});
