import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import {
  createServer,
  type Hook,
  hooks,
  keptReplies,
  metrics,
  RequestError,
  type ServerOptions,
} from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';

/** Hooks around requests and messages, over real sockets. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function setUp(options: ServerOptions, client: Parameters<typeof connect>[1] = {}) {
  const errors: unknown[] = [];
  const server = createServer({ onError: (error) => errors.push(error), ...options });
  open.push(server);
  const session = await connect((await server.listen()).url, { WebSocket, ...client });
  open.push(session);
  return { server, session, errors };
}

async function parts(session: ClientSession, body: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const part of session.stream(body)) texts.push(part.text);
  return texts;
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('hooks around requests', () => {
  it('run in their order, see what the handler sees, and leave the reply as it is', async () => {
    const seen: unknown[] = [];
    const hook =
      (name: string): Hook =>
      async (context, next) => {
        if (context.kind !== 'request') return next();
        seen.push([name, context.message.text, context.metadata, context.session.principal]);
        const reply = await next();
        seen.push(`${name} after`);
        return name === 'one' ? reply : undefined;
      };
    const { session } = await setUp({
      authenticate: () => ({ principal: 'ann' }),
      features: [hooks([hook('one'), hook('two')])],
      onRequest: ({ text }) => {
        seen.push('handler');
        return `re: ${text}`;
      },
    });
    const reply = await session.request('hello', { metadata: { n: 1 } });
    expect(reply.text).toBe('re: hello');
    const call = (name: string) => [name, 'hello', { n: 1 }, 'ann'];
    expect(seen).toEqual([call('one'), call('two'), 'handler', 'two after', 'one after']);
  });

  it('let streamed replies through part by part, also to a client that leaves', async () => {
    let isStopped = false;
    let yielded = 0;
    const { session } = await setUp({
      features: [hooks([(_context, next) => next(), async (_context, next) => await next()])],
      async *onRequest() {
        try {
          for (;;) {
            yield `${yielded++} `;
            await new Promise((resolve) => setTimeout(resolve, 1));
          }
        } finally {
          isStopped = true;
        }
      },
    });
    for await (const part of session.stream('count')) if (part.text === '3 ') break;
    await expect.poll(() => isStopped).toBe(true);
    expect(yielded).toBeGreaterThan(3);
  });

  it('may answer in place of the handler, change its parts, and set metadata', async () => {
    let calls = 0;
    const { session } = await setUp({
      features: [
        hooks([
          async (context, next) => {
            if (context.kind !== 'request') return;
            if (context.message.text === 'cached') return 'from the cache';
            context.setMetadata({ by: 'hook' });
            const reply = await next();
            if (typeof reply !== 'object' || reply === null || !(Symbol.asyncIterator in reply)) return reply;
            return (async function* () {
              for await (const part of reply as AsyncIterable<string>) yield part.toUpperCase();
            })();
          },
        ]),
      ],
      async *onRequest() {
        calls++;
        yield 'a';
        yield 'b';
      },
    });
    expect((await session.request('cached')).text).toBe('from the cache');
    expect(calls).toBe(0);
    expect(await parts(session, 'x')).toEqual(['A', 'B']);
    expect((await session.request('x')).metadata).toMatchObject({ by: 'hook' });
  });

  it('fail a request as its handler does, before and after it', async () => {
    const { session, errors } = await setUp({
      features: [
        hooks([
          async ({ message }, next) => {
            if (message.text === 'refused') throw new RequestError('no_way', 'no', { data: 1 });
            if (message.text === 'twice') await next();
            await next();
            if (message.text === 'late') throw new Error('a fault of the hook');
          },
        ]),
      ],
      onRequest: ({ text }) => {
        if (text === 'handler') throw new RequestError('own', 'of the handler');
        return 'fine';
      },
    });
    expect(await failure(session.request('refused'))).toMatchObject({ code: 'no_way', data: 1 });
    expect(await failure(session.request('handler'))).toMatchObject({ code: 'own' });
    expect(await failure(session.request('late'))).toMatchObject({ code: 'internal' });
    expect(await failure(session.request('twice'))).toMatchObject({ code: 'internal' });
    expect((await session.request('ok')).text).toBe('fine');
    expect(errors.map((error) => (error as Error).message)).toEqual([
      'a fault of the hook',
      'hooks: a hook may call next only once',
    ]);
  });

  it('see the errors of a handler, and may answer for it', async () => {
    const { session } = await setUp({
      features: [
        hooks([
          async (_context, next) => await next().catch((error: Error) => `instead of ${error.message}`),
        ]),
      ],
      onRequest: () => {
        throw new Error('a fault');
      },
    });
    expect((await session.request('')).text).toBe('instead of a fault');
  });

  it('that do not wait for next leave the reply as it is, and its error to the requester alone', async () => {
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on('unhandledRejection', note);
    const { session } = await setUp({
      features: [
        hooks([
          ({ message }, next) => {
            void next();
            if (message.text === 'no hook') throw new RequestError('no_hook', 'the hook fails');
          },
        ]),
      ],
      onRequest: async ({ text }) => {
        await pause(5);
        if (text !== 'hello') throw new RequestError('no_handler', 'the handler fails');
        return `re: ${text}`;
      },
    });
    expect((await session.request('hello')).text).toBe('re: hello');
    expect(await failure(session.request('no handler'))).toMatchObject({ code: 'no_handler' });
    expect(await failure(session.request('no hook'))).toMatchObject({ code: 'no_hook' });
    await pause(20);
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  it('are measured and kept with the reply', async () => {
    const { session, server } = await setUp({
      features: [metrics(), keptReplies({ keep: true }), hooks([(_context, next) => next()])],
      async *onRequest() {
        yield 'a';
        yield 'b';
      },
    });
    const stream = session.stream('');
    const texts: string[] = [];
    for await (const part of stream) texts.push(part.text);
    expect(texts).toEqual(['a', 'b']);
    const followed: string[] = [];
    for await (const part of session.follow(stream.keptId ?? '')) followed.push(part.text);
    expect(followed).toEqual(texts);
    const { url } = await server.listenMetrics();
    const page = await (await fetch(`${url.replace('ws:', 'http:').replace(/\/[^/]*$/, '')}/metrics`)).text();
    expect(page).toMatch(/parlance_requests?_.*1/);
  });
});

describe('hooks around messages', () => {
  it('run for each message that the session reads, until it reads the next one', async () => {
    const seen: string[] = [];
    const { session } = await setUp({
      features: [
        hooks([
          async ({ kind, message }, next) => {
            seen.push(`${kind} ${message.text}`);
            await next();
            seen.push(`${message.text} done`);
          },
        ]),
      ],
      async onSession(each) {
        for await (const { text } of each) {
          seen.push(`reading ${text}`);
          if (text === 'two') break;
        }
        seen.push('left');
        await each.send('over');
      },
    });
    await session.send('one');
    await session.send('two');
    for await (const message of session) if (message.text === 'over') break;
    expect(seen).toEqual([
      'message one',
      'reading one',
      'one done',
      'message two',
      'reading two',
      'two done',
      'left',
    ]);
  });

  it('drop a message by not calling next, and keep the order of all others', async () => {
    const { session } = await setUp({
      features: [
        hooks([
          async ({ message }, next) => {
            await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
            if (Number(message.text) % 2 === 0) await next();
          },
        ]),
      ],
      async onSession(each) {
        for await (const { text } of each) await each.send(text);
      },
    });
    for (let i = 0; i <= 20; i++) await session.send(String(i));
    const texts: number[] = [];
    for await (const message of session) if (texts.push(Number(message.text)) === 11) break;
    expect(texts).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
  });

  it.each(['before', 'after'])('end a session as its reader does if they throw %s next', async (when) => {
    const { session, errors } = await setUp({
      features: [
        hooks([
          async (_context, next) => {
            if (when === 'before') throw new Error('a fault of the hook');
            await next();
            throw new Error('a fault of the hook');
          },
        ]),
      ],
      async onSession(each) {
        for await (const { text } of each) await each.send(text);
      },
    });
    await session.send('one');
    expect((await session.closed).error).toMatchObject({ code: 'internal', side: 'remote' });
    expect(errors).toEqual([expect.objectContaining({ message: 'a fault of the hook' })]);
  });

  it('do not hold up a session that ends or is left in the middle of a message', async () => {
    let isOver = false;
    const { session } = await setUp({
      features: [hooks([(_context, next) => next()])],
      async onSession(each) {
        for await (const _message of each)
          while (!each.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5));
        isOver = true;
      },
    });
    await session.send('one');
    await session.send('two');
    await session.close();
    await expect.poll(() => isOver).toBe(true);
  });
});

describe('the list of hooks', () => {
  it('takes functions only', () => {
    for (const use of [['text'], [undefined], () => {}])
      expect(() => createServer({ features: [hooks(use as never)] })).toThrow(
        expect.objectContaining({ code: 'invalid_option' }),
      );
  });
});
