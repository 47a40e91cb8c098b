import { type ClientSession, connect, type RequestHandler } from '@parlance/client';
import { contractClient, defineContract, serve } from '@parlance/client/contract';
import { hooks, metrics, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { z } from 'zod';
import { createPeers, failure } from '../kit/peers.js';

/** The values that a handler may return, and how often its reply is read. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const parts = async (session: ClientSession, options = {}): Promise<string[]> => {
  const texts: string[] = [];
  for await (const part of session.stream('x', options)) texts.push(part.text);
  return texts;
};

async function* generator() {
  yield 'a';
  yield 'b';
}

const FORMS: Record<string, { handler: RequestHandler; expected: string[] }> = {
  'an async function that returns a generator': {
    handler: async () => generator(),
    expected: ['a', 'b'],
  },
  'a function that returns a generator': { handler: () => generator(), expected: ['a', 'b'] },
  'a synchronous generator': {
    handler: function* () {
      yield 'a';
      yield { json: 1 };
      return 'c';
    },
    expected: ['a', '1', 'c'],
  },
  'an async function that returns a synchronous generator': {
    handler: async () =>
      (function* () {
        yield 'a';
      })(),
    expected: ['a'],
  },
  'an async generator that returns a part': {
    handler: async function* () {
      yield 'a';
      return 'b';
    },
    expected: ['a', 'b'],
  },
  'an async generator that only returns a part': {
    // biome-ignore lint/correctness/useYield: a handler may be written so
    handler: async function* () {
      return { text: 'a' };
    },
    expected: ['a'],
  },
  'an async generator that returns null': {
    handler: async function* () {
      yield 'a';
      return null;
    },
    expected: ['a', 'null'],
  },
  'an iterable that ends with the same value each time': {
    handler: () => ({
      [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true as const, value: 'last' }) }),
    }),
    expected: ['last'],
  },
};

describe.each(Object.entries(FORMS))('%s', (_, { handler, expected }) => {
  const through: Record<string, ServerOptions> = {
    'a handler': { onRequest: handler },
    'a hook': { onRequest: handler, features: [hooks([(_context, next) => next()])] },
    metrics: { onRequest: handler, features: [metrics()] },
    'onFetch beside it': { onRequest: handler, onFetch: () => new Response() },
  };
  it.each(Object.entries(through))('is the reply through %s', async (_name, options) => {
    const { url } = await peers.serve(options);
    const session = peers.use(await connect(url, { WebSocket }));
    expect(await parts(session)).toEqual(expected);
    expect((await session.request('x')).text).toBe(expected.join(''));
  });

  it.each([{}, { onFetch: () => new Response() }])('is the reply of a client', async (options) => {
    const { server, url } = await peers.serve();
    await peers.dial(url, { onRequest: handler, ...options });
    for (const [, session] of server.sessions)
      expect((await session.request('x')).text).toBe(expected.join(''));
  });

  it('is kept as a whole', async () => {
    const { url } = await peers.serve({
      authenticate: () => ({ principal: 'ann' }),
      onRequest: (request, context) => {
        context.keep({ name: 'answer' });
        return handler(request, context);
      },
    });
    const session = peers.use(await connect(url, { WebSocket }));
    await session.request('x');
    const kept: string[] = [];
    for await (const part of session.follow('answer')) kept.push(part.text);
    expect(kept).toEqual(expected);
  });
});

describe('a generator', () => {
  it('whose return value is a part joins it with those before, if they are joined', async () => {
    const { url } = await peers.serve({
      onRequest: async function* (_request, { setBatch }) {
        setBatch({ ms: 1_000, bytes: 1_000 });
        yield 'a';
        return 'b';
      },
    });
    expect(await parts(peers.use(await connect(url, { WebSocket })))).toEqual(['ab']);
  });

  it.each([
    ['async', async (next: () => string) => asyncly(next)],
    ['synchronous', async (next: () => string) => syncly(next)],
  ])('of a promise, %s, is left if its requester leaves', async (_kind, create) => {
    let steps = 0;
    let left = 0;
    const { url } = await peers.serve({
      onRequest: async () => {
        const made = await create(() => `${++steps}`);
        return {
          async *[Symbol.asyncIterator]() {
            try {
              yield* made;
            } finally {
              left++;
            }
          },
        };
      },
    });
    const session = peers.use(await connect(url, { WebSocket }));
    for await (const part of session.stream('x')) if (part.text === '3') break;
    await expect.poll(() => left).toBe(1);
  });

  it('is no part of a reply: the error says what to write', async () => {
    const errors: string[] = [];
    const { url } = await peers.serve({
      onError: (error) => void errors.push(String(error)),
      onRequest: async function* () {
        yield generator() as never;
      },
    });
    await failure(peers.use(await connect(url, { WebSocket })).request('x'));
    expect(errors).toEqual([
      'ProtocolError: a generator is not a body: a handler returns it, or yields its parts with yield*',
    ]);
  });
});

async function* asyncly(next: () => string) {
  for (;;) {
    yield next();
    await new Promise((resolve) => setImmediate(resolve));
  }
}
function* syncly(next: () => string) {
  for (;;) yield next();
}

describe('a second loop over a reply is refused', () => {
  const REFUSAL = { name: 'ProtocolError', code: 'invalid_argument', message: /^a reply is read once/ };
  const again = (reply: AsyncIterable<unknown>) =>
    failure(
      (async () => {
        for await (const _ of reply);
      })(),
    );
  const refused = async (reply: AsyncIterable<unknown>) => {
    const { name, code, message } = await again(reply);
    expect({ name, code, message }).toEqual({ ...REFUSAL, message: expect.stringMatching(REFUSAL.message) });
  };
  const start = async () => {
    const { url } = await peers.serve({
      authenticate: () => ({ principal: 'ann' }),
      onRequest: async function* (_request, { keep }) {
        keep({ name: 'answer' });
        yield '"a"';
        yield '"b"';
      },
    });
    return peers.use(await connect(url, { WebSocket }));
  };

  it.each([{}, { retryUnsent: true }])('after the first has read it: %o', async (options) => {
    const session = await start();
    const reply = session.stream('x', options);
    for await (const _ of reply);
    await refused(reply);
    await refused(reply);
  });

  it('after the first was left, and while it reads', async () => {
    const session = await start();
    const reply = session.stream('x');
    for await (const _ of reply) {
      await refused(reply);
      break;
    }
    await refused(reply);
  });

  it('also of a reply that is followed, and of one that was cancelled', async () => {
    const session = await start();
    await session.request('x');
    const reply = session.follow('answer');
    for await (const _ of reply);
    await refused(reply);
    const cancelled = session.stream('x');
    cancelled.cancel();
    for await (const _ of cancelled) throw new Error('it was cancelled');
    await refused(cancelled);
  });

  it('also of a contract, whose output is there after the loop, as often as it is asked for', async () => {
    const contract = defineContract({ count: { parts: z.number(), output: z.string() } });
    const { url } = await peers.serve({
      onRequest: serve(contract, {
        async *count() {
          yield 1;
          return 'done';
        },
      }),
    });
    const { stream } = contractClient(contract, await peers.dial(url));
    const reply = stream.count();
    for await (const part of reply) expect(part).toBe(1);
    await refused(reply);
    expect([await reply.output(), await reply.output()]).toEqual(['done', 'done']);
    const whole = stream.count();
    expect(await whole.output()).toBe('done');
    await refused(whole);
  });

  it('and the output of one that has failed is its error', async () => {
    const contract = defineContract({ count: { parts: z.number(), output: z.string() } });
    const { url } = await peers.serve({
      onRequest: serve(contract, {
        async *count() {
          yield 'wrong' as never;
          return 'done';
        },
      }),
    });
    const { stream } = contractClient(contract, await peers.dial(url));
    const reply = stream.count();
    const error = await again(reply);
    expect(error.code).toBe('invalid_output');
    expect(await failure(reply.output())).toBe(error);
  });
});
