import { connect, type Session } from '@parlance/client';
import { describeContextBody, type ProtocolError, Subprotocol } from '@parlance/protocol';
import { batching, createServer, type Server, type ServerOptions, without } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createProse, seeded } from '../../../packages/protocol/src/testing/prose.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';

/** Session context and token streams over real sockets. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

type ClientOptions = NonNullable<Parameters<typeof connect>[1]>;

async function setUp(
  options: ServerOptions,
  client: ClientOptions = {},
): Promise<{ server: Server; session: Session; port: number }> {
  const server = createServer(options);
  open.push(server);
  const { url, port } = await server.listen();
  const session = await connect(url, { WebSocket, ...client });
  open.push(session);
  return { server, session, port };
}

const request = (turns: readonly string[]) =>
  JSON.stringify({
    model: 'gpt-4o',
    messages: turns.map((content) => ({ role: 'user', content })),
    stream: true,
  });
const chunk = (text: string) =>
  JSON.stringify({
    id: 'chatcmpl-AbC',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta: { content: text } }],
  });
const prose = createProse(1);
const conversation = Array.from({ length: 30 }, () => prose(150));
/** A handler that answers with the length of the request, so that every byte counts. */
const measure: ServerOptions = { onRequest: ({ text }) => `${text.length} ${text.slice(-60)}` };

describe('a conversation', () => {
  it('is sent only once, also over lost connections, and reports how it was coded', async () => {
    const { session, port } = await setUp(measure);
    const proxy = await createCuttingProxy(port);
    open.push(proxy);
    const other = await connect(`ws://127.0.0.1:${proxy.port}/session`, {
      WebSocket,
      reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    });
    open.push(other);
    for (const each of [session, other]) {
      let json = 0;
      const before = each.stats().sent.wireBytes;
      for (let turns = 1; turns <= conversation.length; turns++) {
        const text = request(conversation.slice(0, turns));
        json += text.length;
        if (each === other && turns % 10 === 5) proxy.cut();
        expect((await each.request(text)).text).toBe(`${text.length} ${text.slice(-60)}`);
      }
      expect(json / (each.stats().sent.wireBytes - before)).toBeGreaterThan(each === session ? 20 : 15);
      const { lastSelection, context, sent } = each.stats();
      expect(lastSelection).toMatchObject({
        algorithm: 'CONTEXT',
        reason: { rule: 'context' },
        context: { base: 2, compressed: true },
      });
      expect(lastSelection?.context?.dictionary).toBeGreaterThan(20_000);
      expect(describeContextBody(lastSelection?.body ?? new Uint8Array(0), false)).toMatchObject({
        base: 'message 1 back',
        coding: 'zstd',
        prefix: lastSelection?.context?.prefix,
      });
      expect(context?.sent).toMatchObject({ messages: 1 });
      expect(sent.byAlgorithm.CONTEXT?.messages).toBe(conversation.length);
    }
  });

  it('arrives unchanged in both directions, in messages, requests and replies, as text and as bytes', async () => {
    const turns = conversation.slice(0, 6);
    const { session } = await setUp({
      onSession: async (other) => {
        for await (const message of other) {
          expect(message.algorithm).toBe('CONTEXT');
          await other.send(message.bytes);
        }
      },
      onRequest: ({ bytes }) => ({ bytes }),
    });
    const messages = session[Symbol.asyncIterator]();
    for (let i = 1; i <= turns.length; i++) {
      const text = request(turns.slice(0, i));
      await session.send(i % 2 ? text : new TextEncoder().encode(text));
      const { value } = await messages.next();
      expect(value?.text).toBe(text);
      // A receiver may overwrite the bytes that it got.
      value?.bytes.fill(0);
      expect((await session.request(text)).text).toBe(text);
    }
    const { received } = session.stats();
    expect(received.contentBytes / (received.byAlgorithm.CONTEXT?.codedBytes ?? 0)).toBeGreaterThan(4);
  });

  it('keeps secrets out of the context', async () => {
    const seen: string[] = [];
    const { session } = await setUp({
      onRequest: (asked) => {
        seen.push(asked.algorithm);
        return 'ok';
      },
    });
    const text = request(conversation.slice(0, 4));
    await session.request(text);
    await session.request(text, { compressAlone: true });
    expect(session.stats().context?.sent.messages).toBe(1);
    await session.request(text);
    expect(seen[0]).toBe('CONTEXT');
    expect(seen[1]).not.toBe('CONTEXT');
    expect(seen[2]).toBe('CONTEXT');
    await expect(session.request(text, { compressAlone: true, algorithm: 'CONTEXT' })).rejects.toMatchObject({
      code: 'invalid_argument',
    });
  });

  it('uses a forced algorithm for a message', async () => {
    const { session } = await setUp({ onRequest: (asked) => asked.algorithm });
    const text = request(conversation.slice(0, 4));
    for (const algorithm of ['CONTEXT', 'BROTLI', 'CONTEXT', 'NONE', 'TOKEN_NATIVE', 'M2M'] as const) {
      expect((await session.request(text, { algorithm })).text).toBe(algorithm);
    }
    expect((await session.request('x', { algorithm: 'CONTEXT' })).text).toBe('CONTEXT');
  });
});

describe('the extension', () => {
  const text = request(conversation.slice(0, 4));
  const formOf: ServerOptions = { onRequest: ({ algorithm }) => algorithm };

  it.each<[string, ServerOptions, ClientOptions]>([
    ['the client', {}, { extensions: { context: false } }],
    ['the server', { features: [without('context')] }, {}],
  ])('is off if %s switches it off', async (_who, server, client) => {
    const { session } = await setUp({ ...formOf, ...server }, client);
    expect(session.negotiated.extensions['context']).toBeUndefined();
    expect((await session.request(text)).text).not.toBe('CONTEXT');
    expect(session.stats().context).toBeUndefined();
    const error = await session.request(text, { algorithm: 'CONTEXT' }).catch((e: ProtocolError) => e);
    expect(error).toMatchObject({ code: 'unsupported' });
  });

  it('is off in the JSON subprotocol, and without the link', async () => {
    const seen: string[] = [];
    const onSession: ServerOptions['onSession'] = async (session) => {
      for await (const { algorithm } of session) seen.push(algorithm);
    };
    const { session } = await setUp({ onSession }, { subprotocol: Subprotocol.JSON });
    await session.send(text);
    expect(session.negotiated.extensions['context']).toBeUndefined();
    const other = await setUp({ onSession }, { extensions: { link: false } });
    await other.session.send(text);
    await expect.poll(() => seen.length).toBe(2);
    expect(seen).not.toContain('CONTEXT');
  });

  it('is off if M2M frames must be protected', async () => {
    const security = { mode: 'HMAC', key: new Uint8Array(32).fill(7) } as const;
    // Only chat JSON has an M2M form.
    const answer: ServerOptions = {
      onRequest: ({ algorithm }) => ({
        json: { messages: [{ role: 'user', content: algorithm }], model: 'm' },
      }),
    };
    const { session } = await setUp({ ...answer, security }, { security });
    expect((await session.request(text)).text).toContain('"M2M"');
  });

  it('keeps what the smaller of the two budgets allows', async () => {
    const { session } = await setUp(
      { ...measure, limits: { contextBytes: 10_000, contextMessages: 8 } },
      { limits: { contextBytes: 1_000_000, contextMessages: 2 } },
    );
    // Each is another conversation, so no message replaces an earlier one.
    for (let i = 0; i < 5; i++) await session.request(request([prose(400), conversation[i] ?? '']));
    const { sent } = session.stats().context ?? {};
    expect(sent?.messages).toBeLessThanOrEqual(2);
    expect(sent?.bytes).toBeLessThanOrEqual(10_000);
    expect(sent?.messages).toBeGreaterThan(0);
  });
});

describe('a stream', () => {
  it('of JSON chunks takes about fifteen bytes each, and arrives byte for byte', async () => {
    const words = prose(500).split(/(?= )/);
    const { session } = await setUp({
      async *onRequest() {
        for (const word of words) yield chunk(word);
      },
    });
    const before = session.stats().received.wireBytes;
    const parts: string[] = [];
    for await (const part of session.stream('go')) parts.push(part.text);
    expect(parts).toEqual(words.map(chunk));
    expect((session.stats().received.wireBytes - before) / words.length).toBeLessThan(16);
    expect((await session.request('go')).text).toBe(words.map(chunk).join(''));
  });

  it('of token IDs arrives ID for ID, even if they do not form text', async () => {
    const random = seeded(3);
    const sequences = Array.from({ length: 100 }, () =>
      Array.from({ length: 1 + Math.floor(random() * 20) }, () => Math.floor(random() * 100_000)),
    );
    const { session } = await setUp({
      async *onRequest({ text }, { setBatch }) {
        if (text === 'batched') setBatch({ ms: 5, bytes: 30 });
        for (const tokens of sequences) yield { tokens };
      },
    });
    for (const how of ['by themselves', 'batched']) {
      const parts: (readonly number[])[] = [];
      for await (const part of session.stream(how)) parts.push([...(part.tokens ?? [])]);
      expect(parts.flat()).toEqual(sequences.flat());
      if (how === 'batched') expect(parts.length).toBeLessThan(sequences.length);
      else expect(parts).toEqual(sequences);
    }
    const whole = await session.request('whole');
    expect([...(whole.tokens ?? [])]).toEqual(sequences.flat());
  });

  it('of text travels as token IDs, and holds back incomplete characters', async () => {
    const { session } = await setUp(
      {
        async *onRequest({ text }) {
          // 😀 in three tokens.
          if (text === 'ids') for (const id of [76460, 222, 0]) yield { tokens: [id] };
          else for (const word of ['Hello', ',', ' world', '!']) yield word;
        },
        features: [batching({ ms: 1 })],
      },
      { encodings: ['CL100K_BASE'] },
    );
    const texts: string[] = [];
    for await (const part of session.stream('text')) {
      expect(part.algorithm).toBe('TOKEN_NATIVE');
      texts.push(part.text);
    }
    expect(texts.join('')).toBe('Hello, world!');
    const parts: string[] = [];
    for await (const part of session.stream('ids')) parts.push(part.text);
    expect(parts.join('')).toBe('😀!');
  });

  it('continues in context after other streams were cancelled, failed and abandoned', async () => {
    const { session } = await setUp({
      async *onRequest({ text }, { signal }) {
        for (let i = 0; i < 200 && !signal.aborted; i++) {
          yield chunk(`${text} ${i}`);
          if (text === 'fail' && i === 20) throw new Error('stop');
          if (i % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
        }
      },
    });
    for (let round = 0; round < 5; round++) {
      for await (const _ of session.stream('leave')) break;
      const cancelled = session.stream('cancel');
      cancelled.cancel();
      await expect(session.request('fail')).rejects.toMatchObject({ code: 'internal' });
      const parts: string[] = [];
      for await (const part of session.stream('all')) parts.push(part.text);
      expect(parts).toEqual(Array.from({ length: 200 }, (_, i) => chunk(`all ${i}`)));
    }
    expect(session.state).toBe('established');
  });
});
