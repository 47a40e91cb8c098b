import type { Body, Message, Session } from '@parlance/client';
import { contractClient, defineContract, serve } from '@parlance/client/contract';
import { cluster, durable, type ServerOptions } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { createPeers, failure } from '../kit/peers.js';

/** A body has the same form in every call that takes one, and payloads that look like a form stay JSON. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

/** Each body with what arrives. */
const BODIES: readonly (readonly [Body, unknown])[] = [
  [{ text: 'as text' }, 'as text'],
  [{ json: 'as JSON' }, '"as JSON"'],
  [{ json: { text: 'as JSON' } }, '{"text":"as JSON"}'],
  [{ bytes: Uint8Array.of(0xff, 1) }, [0xff, 1]],
  [{ tokens: [15339, 1917] }, 'hello world'],
  [{ text: 5 }, '{"text":5}'],
  [{ text: 'a', language: 'en' }, '{"text":"a","language":"en"}'],
  [{ json: 1, more: 2 }, '{"json":1,"more":2}'],
];
const SENT = BODIES.map(([body]) => body);
const EXPECTED = BODIES.map(([, expected]) => expected);

function seen(message: Message): unknown {
  try {
    return message.text;
  } catch {
    return [...message.bytes];
  }
}

async function take(messages: AsyncIterable<Message>, count: number): Promise<unknown[]> {
  const taken: unknown[] = [];
  for await (const message of messages) if (taken.push(seen(message)) === count) break;
  return taken;
}

/** The other end tells what it was asked. */
function recorder() {
  const asked: unknown[] = [];
  return { asked, onRequest: (request: Message) => void asked.push(seen(request)) as undefined };
}

const CALLS: Record<string, (session: Session, body: Body) => Promise<void>> = {
  request: async (session, body) => {
    await session.request(body);
  },
  'request with retry': async (session, body) => {
    await session.request(body, { retryUnsent: true });
  },
  stream: async (session, body) => {
    for await (const _ of session.stream(body));
  },
  'stream with retry': async (session, body) => {
    for await (const _ of session.stream(body, { retryUnsent: true }));
  },
};

describe('the form of a body', () => {
  it.each(['request', 'request with retry', 'stream', 'stream with retry'])(
    'is the same in %s of a client',
    async (name) => {
      const { asked, onRequest } = recorder();
      const { url } = await peers.serve({ onRequest });
      const session = await peers.dial(url);
      for (const body of SENT) await CALLS[name]?.(session, body);
      expect(asked).toEqual(EXPECTED);
    },
  );

  it.each(['request', 'stream'])('is the same in %s of a server', async (name) => {
    const { asked, onRequest } = recorder();
    const { server, url } = await peers.serve();
    await peers.dial(url, { onRequest });
    for (const [, session] of server.sessions) for (const body of SENT) await CALLS[name]?.(session, body);
    expect(asked).toEqual(EXPECTED);
  });

  it.each([{}, { retryUnsent: true }])('is the same in send of a client: %o', async (options) => {
    let reading: Promise<unknown[]> | undefined;
    const { url } = await peers.serve({
      async onSession(session) {
        reading = take(session, SENT.length);
        await reading;
      },
    });
    const session = await peers.dial(url);
    for (const body of SENT) await session.send(body, options);
    await session.flush();
    expect(await reading).toEqual(EXPECTED);
  });

  it('is the same in send of a server and of its groups', async () => {
    const { server, url } = await peers.serve();
    const session = await peers.dial(url);
    for (const [, served] of server.sessions) {
      server.group('all').add(served);
      for (const body of SENT) await served.send(body);
      for (const body of SENT) expect((await server.group('all').send(body)).refused).toEqual([]);
    }
    expect(await take(session, 2 * SENT.length)).toEqual([...EXPECTED, ...EXPECTED]);
  });

  it('is the same in return and yield', async () => {
    const { url } = await peers.serve({
      onRequest: (request) => {
        if (request.text !== 'all') return SENT[Number(request.text)];
        return (async function* () {
          yield* SENT;
        })();
      },
    });
    const session = await peers.dial(url);
    const returned: unknown[] = [];
    for (const at of SENT.keys()) returned.push(seen(await session.request(String(at))));
    expect(returned).toEqual(EXPECTED);
    expect(await take(session.stream('all'), SENT.length)).toEqual(EXPECTED);
  });

  it.skipIf(redisMissing !== undefined)('is the same in commit', async () => {
    await using engine = await startRedis();
    const { url } = await peers.serve({
      engine: redis({ url: engine.url }),
      features: [
        cluster({ secret: 'a secret of thirty-two bytes or more' }),
        durable(true, { allowVolatileEngine: true }),
      ],
      authenticate: () => ({ principal: 'ann' }),
      async onSession(session) {
        for await (const { number } of session)
          await session.commit({ send: [...SENT, { json: { done: number } }] });
      },
    });
    const session = await peers.dial(url);
    await session.send('go');
    expect(await take(session, SENT.length + 1)).toEqual([...EXPECTED, '{"done":1}']);
  });
});

describe('a payload that looks like a form', () => {
  const PAYLOADS = [{ text: 'x' }, { json: { a: 1 } }, { tokens: [1, 2] }, 'plain', { text: 'x', more: 1 }];

  it('stays JSON in a contract: inputs, outputs and parts', async () => {
    const any = z.any();
    const contract = defineContract({
      call: { input: any, output: any },
      stream: { input: any, parts: any },
      both: { input: any, parts: any, output: any },
    });
    const given: unknown[] = [];
    const { url } = await peers.serve({
      onRequest: serve(contract, {
        call: (input) => {
          given.push(input);
          return input;
        },
        async *stream(input) {
          given.push(input);
          yield input;
        },
        async *both(input) {
          given.push(input);
          yield input;
          return input;
        },
      }),
    });
    const { call, stream } = contractClient(contract, await peers.dial(url));
    for (const payload of PAYLOADS) {
      given.length = 0;
      expect(await call.call(payload)).toEqual(payload);
      for await (const part of stream.stream(payload)) expect(part).toEqual(payload);
      const reply = stream.both(payload);
      for await (const part of reply) expect(part).toEqual(payload);
      expect(await reply.output()).toEqual(payload);
      expect(given).toEqual([payload, payload, payload]);
    }
    expect(await failure(call.call({ image: new Uint8Array(2) }))).toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('image: bytes have no JSON form'),
    });
  });

  it('stays JSON in session.fetch, in both directions', async () => {
    const onFetch: ServerOptions['onFetch'] = async (request) => Response.json(await request.json());
    const { url } = await peers.serve({ onFetch });
    const session = await peers.dial(url);
    if (!('fetch' in session)) throw new Error('a client has fetch');
    const { fetch } = session as { fetch: typeof globalThis.fetch };
    for (const payload of PAYLOADS) {
      const response = await fetch('http://session/', { method: 'POST', body: JSON.stringify(payload) });
      expect(await response.json()).toEqual(payload);
    }
  });
});

describe('json() of a text', () => {
  const hint = 'this is text; if you meant an object with the one member `text`, send `{ json: { text } }`';

  it('says so, at the end that reads it and at the end that sent it', async () => {
    const read: unknown[] = [];
    const { url } = await peers.serve({
      onError: (error) => read.push(error),
      onRequest: (request) => {
        try {
          return { json: request.json() };
        } catch (error) {
          read.push((error as Error).message);
          throw error;
        }
      },
    });
    const session = await peers.dial(url);
    expect(await failure(session.request({ text: 'hello' }))).toMatchObject({
      code: 'bad_json',
      message: hint,
      side: 'remote',
    });
    expect(read).toEqual([hint]);
    expect((await session.request({ json: { text: 'hello' } })).json()).toEqual({ text: 'hello' });
  });

  it('does not say so of JSON that is broken', async () => {
    const { url } = await peers.serve({ onRequest: (request) => request.text });
    const session = await peers.dial(url);
    for (const broken of ['{"a":', '[1,', '"a', ''])
      await session.request(broken).then((reply) => {
        expect(() => reply.json()).toThrow(
          expect.objectContaining({
            code: 'bad_json',
            message: `${broken.length} characters are not valid JSON`,
          }),
        );
      });
  });
});
