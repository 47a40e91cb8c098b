import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect, type Session } from '@parlance/client';
import { CloseCode, type ProtocolError, RequestError, Subprotocol } from '@parlance/protocol';
import { createServer, type Server, type ServerOptions, scan } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';

/** The public API of both ends over real sockets. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function serve(options: ServerOptions = {}): Promise<{ server: Server; url: string }> {
  const server = createServer(options);
  open.push(server);
  const { url } = await server.listen();
  return { server, url };
}

async function dial(url: string, options: Parameters<typeof connect>[1] = {}): Promise<Session> {
  const session = await connect(url, { WebSocket, ...options });
  open.push(session);
  return session;
}

const echo: ServerOptions = {
  onSession: async (session) => {
    for await (const message of session) await session.send(message.bytes);
  },
};

const failure = (promise: Promise<unknown>): Promise<ProtocolError> =>
  promise.then(
    () => {
      throw new Error('the call did not fail');
    },
    (error: unknown) => error as ProtocolError,
  );

describe('messages', () => {
  it.each(['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE', 'auto'] as const)(
    'come back equal as %s',
    async (algorithm) => {
      const seen: string[] = [];
      const { url } = await serve({
        onSession: async (session) => {
          for await (const message of session) {
            seen.push(message.algorithm);
            await session.send(message.text);
          }
        },
      });
      const session = await dial(url);
      const chat = JSON.stringify({
        model: 'gpt-4o',
        max_tokens: 99,
        messages: [
          {
            role: 'user',
            content:
              'Grüße, 世界! 👩‍👩‍👧 \ufeff and more than one hundred bytes of text to make it worth a codec',
          },
        ],
      });
      const reader = session[Symbol.asyncIterator]();
      for (const text of [chat, '', chat.repeat(3)].filter((text) => algorithm !== 'M2M' || text === chat)) {
        await session.send(text, { algorithm });
        expect((await reader.next()).value?.text).toBe(text);
      }
      if (algorithm !== 'auto') expect(new Set(seen)).toEqual(new Set([algorithm]));
    },
  );

  it('carry bytes that are not text, and JSON values', async () => {
    const { url } = await serve(echo);
    const session = await dial(url);
    const reader = session[Symbol.asyncIterator]();
    await session.send(Uint8Array.of(0xff, 0x00, 0xfe));
    const { value: bytes } = await reader.next();
    expect([...(bytes?.bytes ?? [])]).toEqual([0xff, 0x00, 0xfe]);
    expect(() => bytes?.text).toThrow(expect.objectContaining({ code: 'bad_utf8' }));
    await session.send({ answer: [42, null, 'x'] });
    expect((await reader.next()).value?.json()).toEqual({ answer: [42, null, 'x'] });
  });

  it.each(['auto', 'TOKEN_NATIVE', 'BROTLI'] as const)(
    'keep their order after one that takes long to code as %s',
    async (algorithm) => {
      const { url } = await serve(echo);
      const session = await dial(url);
      const large = 'A long text with words, many of them the same. 多种语言。 '.repeat(10_000);
      const sends = ['before', large, 'after', ''].map((text) =>
        session.send(text, { algorithm: text === large ? algorithm : 'auto' }),
      );
      const received: string[] = [];
      for await (const message of session) {
        received.push(message.text);
        if (received.length === sends.length) break;
      }
      await Promise.all(sends);
      expect(received).toEqual(['before', large, 'after', '']);
    },
  );

  it('are read again after a reader has left', async () => {
    const { url } = await serve(echo);
    const session = await dial(url);
    for (const text of ['one', 'two', 'three']) await session.send(text);
    const read: string[] = [];
    for await (const message of session) {
      read.push(message.text);
      if (read.length === 2) break;
    }
    for await (const message of session) {
      read.push(message.text);
      break;
    }
    expect(read).toEqual(['one', 'two', 'three']);
    expect(session.state).toBe('established');
  });

  it('work without the link and in the JSON subprotocol', async () => {
    const { url } = await serve(echo);
    for (const options of [{ extensions: { link: false } }, { subprotocol: Subprotocol.JSON }]) {
      const session = await dial(url, options);
      const reader = session[Symbol.asyncIterator]();
      await session.send('a text that is sent bare');
      expect((await reader.next()).value?.text).toBe('a text that is sent bare');
      expect((await failure(session.request('x'))).code).toBe('unsupported');
    }
  });
});

describe('requests', () => {
  it('are answered whole or in parts, by either kind of handler', async () => {
    const { url } = await serve({
      async *onRequest(request, { metadata, setMetadata }) {
        setMetadata({ status: 200, echo: metadata['trace'] ?? null });
        for (const word of request.text.split(' ')) yield word;
        yield { json: { done: true } };
      },
    });
    const session = await dial(url);
    expect((await session.request('a b c')).text).toBe('abc{"done":true}');
    const stream = session.stream('x y', { metadata: { trace: 't-1' } });
    const parts: string[] = [];
    for await (const part of stream) parts.push(part.text);
    expect(parts).toEqual(['x', 'y', '{"done":true}']);
    expect(stream.metadata).toEqual({ status: 200, echo: 't-1' });

    const { url: other } = await serve({ onRequest: (request) => ({ text: request.text.toUpperCase() }) });
    const second = await dial(other);
    expect((await second.request('shout')).text).toBe('SHOUT');
    const once: string[] = [];
    for await (const part of second.stream('once')) once.push(part.text);
    expect(once).toEqual(['ONCE']);
  });

  it('take very large bodies in both directions', async () => {
    const { url } = await serve({ onRequest: (request) => request.text.toUpperCase() });
    const session = await dial(url);
    const large = 'a long question, '.repeat(30_000);
    expect((await session.request(large)).text).toBe(large.toUpperCase());
    const stream = session.stream(large);
    for await (const part of stream) expect(part.text).toBe(large.toUpperCase());
    expect(stream.id).toBeGreaterThan(0);
    const cancelled = session.stream(large);
    cancelled.cancel();
    for await (const _part of cancelled) expect.unreachable();
    await expect.poll(() => session.stats().openStreams).toBe(0);
  });

  it('go from the server to the client as well', async () => {
    const { server, url } = await serve();
    await dial(url, { onRequest: (request) => `client heard ${request.text}` });
    const [session] = [...server.sessions.values()];
    expect((await session?.request('the server'))?.text).toBe('client heard the server');
  });

  it('pass on token IDs unchanged, also with characters split between parts', async () => {
    const { url } = await serve({
      async *onRequest() {
        yield { tokens: [9906] };
        yield { tokens: [11410] };
        yield { tokens: [239, 235] };
      },
    });
    const session = await dial(url);
    const parts: { text: string; tokens: number[] }[] = [];
    for await (const part of session.stream('go'))
      parts.push({ text: part.text, tokens: [...(part.tokens ?? [])] });
    expect(parts.map((part) => part.tokens)).toEqual([[9906], [11410], [239, 235]]);
    expect(parts.map((part) => part.text).join('')).toBe((await session.request('go')).text);
  });

  it("fail with the handler's error, and without hidden details", async () => {
    const { url } = await serve({
      onRequest(request) {
        if (request.text === 'known')
          throw new RequestError('quota', 'come back later', { data: { left: 0 }, retryAfterMs: 500 });
        throw new Error('secret detail');
      },
    });
    const session = await dial(url);
    expect(await failure(session.request('known'))).toMatchObject({
      code: 'quota',
      side: 'remote',
      data: { left: 0 },
      retryAfterMs: 500,
    });
    const hidden = await failure(session.request('unknown'));
    expect(hidden).toMatchObject({ code: 'internal', side: 'remote' });
    expect(hidden.message).not.toContain('secret');
    const { url: mute } = await serve();
    expect((await failure((await dial(mute)).request('x'))).code).toBe('unsupported');
  });

  it.each(['break', 'cancel', 'abort', 'timeout'] as const)(
    'reach the signal of the handler on %s',
    async (how) => {
      const aborted = deferred();
      const { url } = await serve({
        async *onRequest(_request, { signal }) {
          signal.addEventListener('abort', () => aborted.resolve(undefined));
          for (let i = 0; !signal.aborted; i++) {
            yield `part ${i} `;
            await new Promise((resolve) => setTimeout(resolve, 5));
          }
        },
      });
      const session = await dial(url);
      if (how === 'timeout') {
        expect((await failure(session.request('x', { timeoutMs: 50 }))).code).toBe('timeout');
      } else if (how === 'abort') {
        const controller = new AbortController();
        const pending = failure(session.request('x', { signal: controller.signal }));
        controller.abort(new Error('enough'));
        expect((await pending).message).toBe('enough');
      } else {
        const stream = session.stream('x');
        for await (const _part of stream) {
          if (how === 'cancel') stream.cancel();
          else break;
        }
      }
      if (how !== 'abort') await aborted.promise;
      await expect.poll(() => session.stats().openStreams).toBe(0);
      expect(session.state).toBe('established');
    },
  );
});

describe('tensors', () => {
  it('arrive bit by bit equal and verified', async () => {
    const { url } = await serve({
      onSession: async (session) => {
        for await (const { tensor } of session) if (tensor?.data) await session.sendTensor(tensor);
      },
    });
    const session = await dial(url);
    const data = Float32Array.from({ length: 60_000 }, (_, i) => Math.sin(i));
    await session.sendTensor({ data, shape: [60, 1000], dtype: 'float32', payloadType: 'hidden_state' });
    for await (const { tensor } of session) {
      expect(tensor?.shape).toEqual([60, 1000]);
      expect(tensor?.data && tensor.toTyped()).toEqual(data);
      break;
    }
  });
});

describe('admission', () => {
  it('calls authenticate and refuses with REJECT and 4401', async () => {
    const { server, url } = await serve({
      authenticate: ({ token, agentId }) => (token === 'let-me-in' ? { principal: 'u1', agentId } : null),
    });
    expect(await failure(connect(url, { WebSocket, token: 'wrong' }))).toMatchObject({
      code: 'rejected',
      closeCode: CloseCode.UNAUTHENTICATED,
      reject: { code: 'SECURITY_POLICY' },
    });
    const session = await dial(url, { token: async () => 'let-me-in', agentId: 'planner' });
    expect(server.sessions.get(session.id)).toMatchObject({ principal: 'u1', agentId: 'planner' });
  });

  it('takes the token of the Authorization header too', async () => {
    const { url } = await serve({
      authenticate: ({ token }) => (token === 'bearer-token' ? { principal: 'u1' } : null),
    });
    class Authorized extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address, protocols, { headers: { authorization: 'Bearer bearer-token' } });
      }
    }
    await dial(url, { WebSocket: Authorized });
  });

  it.each([
    ['a foreign origin', { origin: 'http://evil.example' }],
    [
      'a foreign host on loopback',
      { origin: 'http://rebound.example', headers: { host: 'rebound.example' } },
    ],
  ])('refuses %s with REJECT and 4403', async (_what, options) => {
    const { url } = await serve(echo);
    class Page extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address, protocols, options);
      }
    }
    expect(await failure(connect(url, { WebSocket: Page }))).toMatchObject({
      code: 'rejected',
      closeCode: CloseCode.FORBIDDEN,
      reject: { code: 'SECURITY_POLICY' },
    });
  });

  it('admits its own origin and listed ones', async () => {
    const { url } = await serve({ ...echo, origins: ['https://app.example'] });
    for (const origin of ['https://app.example', url.replace(/^ws/, 'http').replace(/\/session$/, '')]) {
      class Page extends WebSocket {
        constructor(address: string, protocols: string[]) {
          super(address, protocols, { origin });
        }
      }
      await dial(url, { WebSocket: Page });
    }
  });

  it('takes the first subprotocol that it knows, and no extension of the WebSocket', async () => {
    const { url } = await serve();
    const socket = new WebSocket(url, ['something.else', Subprotocol.JSON, Subprotocol.BINARY], {
      perMessageDeflate: true,
    });
    await once(socket, 'open');
    expect([socket.protocol, socket.extensions]).toEqual([Subprotocol.JSON, '']);
    socket.terminate();
  });

  it('answers an upgrade without a known subprotocol with HTTP 400 that names both', async () => {
    const { url } = await serve();
    const socket = new WebSocket(url, ['something.else']);
    const body = await new Promise<string>((resolve, reject) => {
      socket.on('unexpected-response', (_request, response) => {
        expect(response.statusCode).toBe(400);
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () => resolve(text));
      });
      socket.on('open', () => reject(new Error('the upgrade was accepted')));
    });
    expect(body).toContain(Subprotocol.BINARY);
    expect(body).toContain(Subprotocol.JSON);
  });

  it('answers 426 to plain HTTP and leaves other paths of an attached server alone', async () => {
    const { url } = await serve();
    expect((await fetch(url.replace(/^ws/, 'http'))).status).toBe(426);

    const http = createHttpServer((_request, response) => response.end('mine'));
    const server = createServer(echo);
    open.push(server);
    const detach = server.attach(http);
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const { port } = http.address() as AddressInfo;
    await dial(`ws://127.0.0.1:${port}/session`);
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('mine');
    detach();
    await server.close();
    http.close();
  });
});

describe('protection of M2M frames', () => {
  const chat = JSON.stringify({
    model: 'gpt-4o',
    messages: [{ role: 'user', content: 'between us '.repeat(20) }],
  });
  const key = new Uint8Array(32).fill(7);

  it.each(['HMAC', 'AEAD'] as const)('with %s is used and demanded at both ends', async (mode) => {
    const { url } = await serve({ ...echo, security: { mode, key } });
    const session = await dial(url, { security: { mode, key } });
    const reader = session[Symbol.asyncIterator]();
    await session.send(chat, { algorithm: 'M2M' });
    expect((await reader.next()).value?.text).toBe(chat);
  });

  it.each([
    ['no protection', undefined, 'security_required'],
    ['weaker protection', { mode: 'HMAC', key } as const, 'security_required'],
    ['another key', { mode: 'AEAD', key: new Uint8Array(32).fill(8) } as const, 'authentication_failed'],
  ])(
    'refuses %s if AEAD is demanded, before the application gets the message',
    async (_what, security, code) => {
      const outcomes: string[] = [];
      const { url } = await serve({
        security: { mode: 'AEAD', key },
        onSession: async (session) => {
          try {
            for await (const message of session) outcomes.push(message.text);
          } catch (error) {
            outcomes.push((error as ProtocolError).code);
          }
        },
      });
      const session = await dial(url, security === undefined ? {} : { security });
      await session.send(chat, { algorithm: 'M2M' });
      await expect.poll(() => outcomes).toEqual([code]);
      await expect.poll(() => session.state).toBe('closed');
    },
  );
});

describe('a reader that stops reading', () => {
  it('holds back its own sender only, and bounds what waits', async () => {
    const { server, url } = await serve({
      onSession: async (session) => {
        if (session.agentId === 'flood') return;
        for await (const message of session) await session.send(message.bytes);
      },
    });
    const flooding = await dial(url, { agentId: 'flood' });
    let accepted = 0;
    const flood = (async () => {
      for (let i = 0; i < 1000; i++) {
        await flooding.send(new Uint8Array(16 * 1024));
        accepted++;
      }
    })().catch(() => {});
    await expect.poll(() => flooding.stats().blockedOnCredit).toBe(true);
    const healthy = await dial(url);
    await healthy.send('hello');
    for await (const message of healthy) {
      expect(message.text).toBe('hello');
      break;
    }
    expect((await failure(flooding.request('x'))).code).toBe('unsupported');
    const received = server.sessions.get(flooding.id)?.stats().received.wireBytes ?? 0;
    expect(received).toBeLessThan(5 * 1024 * 1024);
    expect(accepted).toBeLessThan(1000);
    const [session] = [...server.sessions.values()].filter(({ agentId }) => agentId === 'flood');
    let read = 0;
    for await (const _message of session as Session) if (++read === 1000) break;
    await flood;
    expect(accepted).toBe(1000);
  });
});

describe('flush', () => {
  it('waits until everything is acknowledged', async () => {
    let received = 0;
    const { url } = await serve({
      onSession: async (session) => {
        for await (const message of session) received += message.bytes.length;
      },
    });
    const session = await dial(url);
    for (let i = 0; i < 20; i++) void session.send(new Uint8Array(10_000));
    await session.flush();
    expect(received).toBe(200_000);
    await session.flush();
  });
});

describe('the end of a session', () => {
  it('comes after everything is delivered', async () => {
    const received: number[] = [];
    const { url } = await serve({
      onSession: async (session) => {
        for await (const message of session) received.push(message.bytes.length);
      },
    });
    const session = await connect(url, { WebSocket });
    for (let i = 1; i <= 50; i++) void session.send(new Uint8Array(i * 1000));
    expect(await session.close()).toEqual({ unacknowledged: 0 });
    expect(session.state).toBe('closed');
    await expect.poll(() => received.length).toBe(50);
    expect((await failure(session.send('late'))).code).toBe('session_closed');
  });

  it('hands out acknowledged messages after their scan', async () => {
    let release = () => {};
    const looked = new Promise<void>((resolve) => {
      release = resolve;
    });
    const read: string[] = [];
    let isRead = false;
    const { url, server } = await serve({
      features: [
        scan(async (message) => {
          await looked;
          return { safe: !message.text.includes('bad') };
        }),
      ],
      async onSession(session) {
        for await (const message of session) read.push(message.text);
        isRead = true;
      },
    });
    const session = await dial(url);
    for (const text of ['one', 'two', 'bad', 'three']) await session.send(text);
    expect(await session.close()).toEqual({ unacknowledged: 0 });
    await expect.poll(() => server.sessions.size).toBe(0);
    expect([read, isRead]).toEqual([[], false]);
    release();
    await expect.poll(() => isRead).toBe(true);
    expect(read).toEqual(['one', 'two', 'three']);
  });

  it('is reported to pending calls and to the reader when the server fails', async () => {
    const { url } = await serve({
      onSession: async () => {
        throw new Error('cannot continue');
      },
    });
    const session = await dial(url);
    const errors: ProtocolError[] = [];
    session.on('error', (error) => errors.push(error));
    const reading = failure(
      (async () => {
        for await (const _ of session);
      })(),
    );
    expect(await reading).toMatchObject({ code: 'internal', side: 'remote', closeCode: CloseCode.INTERNAL });
    await expect.poll(() => errors.length).toBe(1);
  });

  it('comes for all sessions with the end of the server', async () => {
    const { server, url } = await serve();
    const session = await dial(url);
    const pending = failure(session.request('x'));
    await server.close({ sessions: 'end' });
    await pending;
    await expect.poll(() => session.state).toBe('closed');
    expect((await failure(connect(url, { WebSocket }))).code).toBe('connection_failed');
  });
});

describe('options', () => {
  it.each([
    ['an unknown option of the server', () => createServer({ pth: '/x' } as never)],
    ['an unknown limit', () => createServer({ limits: { maxMessage: 1 } as never })],
    ['a limit that is not a number', () => createServer({ limits: { maxMessageSize: '16' as never } })],
    ['an unknown algorithm', () => createServer({ algorithms: ['GZIP' as never] })],
    ['an invalid origin', () => createServer({ origins: ['app.example/path'] })],
    ['a timer out of its range', () => createServer({ timers: { pingIntervalMs: 5 } })],
  ])('refuse %s', (_what, run) => {
    expect(run).toThrow(expect.objectContaining({ code: 'invalid_option' }));
  });

  it('report what is missing or wrong at the client', async () => {
    expect((await failure(connect('http://x', { WebSocket, tokn: 'x' } as never))).code).toBe(
      'invalid_option',
    );
    expect((await failure(connect('not a url', { WebSocket }))).code).toBe('invalid_option');
    const controller = new AbortController();
    controller.abort(new Error('changed my mind'));
    expect(
      (await failure(connect('ws://127.0.0.1:1', { WebSocket, signal: controller.signal }))).message,
    ).toBe('changed my mind');
  });
});

function deferred() {
  let resolve: (value: unknown) => void = () => {};
  const promise = new Promise((r) => {
    resolve = r;
  });
  return { promise, resolve };
}
