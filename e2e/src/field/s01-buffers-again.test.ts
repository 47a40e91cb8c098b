import type { ClientOptions, ClientSession } from '@parlance/client';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';

/** An application fills one buffer again and again: what arrives is what it held when it was sent. */

let test: TestServer | undefined;
afterEach(() => test?.close());

const key = new Uint8Array(32).fill(7);
const ends: readonly (readonly [name: string, options: ClientOptions])[] = [
  ['as usual', {}],
  ['without context', { extensions: { context: false } }],
  ['with NONE alone', { algorithms: ['NONE'], extensions: { context: false } }],
  ['with BROTLI alone', { algorithms: ['BROTLI'], extensions: { context: false } }],
];

/** Bytes of one length and value in memory that is then used for something else, in each of its views. */
const VIEWS: readonly (readonly [name: string, of: (memory: Uint8Array<ArrayBuffer>) => Uint8Array])[] = [
  ['a Uint8Array', (memory) => memory],
  ['an ArrayBuffer', (memory) => memory.buffer as unknown as Uint8Array],
  ['a DataView', (memory) => new DataView(memory.buffer) as unknown as Uint8Array],
  ['a Buffer', (memory) => Buffer.from(memory.buffer)],
  ['a form', (memory) => ({ bytes: memory }) as unknown as Uint8Array],
];

async function begin(options: ClientOptions = {}): Promise<{ session: ClientSession; got: string[] }> {
  const got: string[] = [];
  test = await createTestServer({
    async onSession(session) {
      for await (const message of session) got.push(Buffer.from(message.bytes).toString('hex'));
    },
    onRequest: (request) => Buffer.from(request.bytes).toString('hex'),
    onFetch: async (request) => new Response(Buffer.from(await request.arrayBuffer()).toString('hex')),
  });
  return { session: await test.connect(options), got };
}

const away = async () => {
  test?.network.down();
  await test?.clock.advance(10);
};
const back = async () => {
  test?.network.up();
  await test?.clock.advance(30_000);
};

describe('bytes are those of the call', () => {
  it.each(ends)('of messages while the connection is away, %s', async (_name, options) => {
    const { session, got } = await begin(options);
    await away();
    for (const [at, [, of]] of VIEWS.entries()) {
      const memory = new Uint8Array(100).fill(at);
      void session.send(of(memory));
      memory.fill(0xee);
    }
    await back();
    expect(got).toEqual(VIEWS.map((_, at) => Buffer.alloc(100, at).toString('hex')));
  });

  it('of secret messages, and of messages behind one that is being coded', async () => {
    const { session, got } = await begin();
    const memory = new Uint8Array([1, 1]);
    await away();
    void session.send(memory, { compressAlone: true });
    memory.fill(2);
    void session.send('a long text '.repeat(20_000));
    void session.send(memory);
    void session.send({ bytes: memory }, { algorithm: 'BROTLI' });
    memory.fill(9);
    await back();
    expect([got[0], ...got.slice(2)]).toEqual(['0101', '0202', '0202']);
  });

  it('of token IDs behind a message that is being coded', async () => {
    const tokens: number[][] = [];
    test = await createTestServer({
      async onSession(session) {
        for await (const message of session) if (message.tokens) tokens.push([...message.tokens]);
      },
    });
    const session = await test.connect({ encodings: ['CL100K_BASE'] });
    void session.send('a long text '.repeat(20_000));
    const own = new Uint32Array([15339, 1917]);
    const list = [15339, 1917];
    void session.send({ tokens: own });
    void session.send({ tokens: list });
    own.fill(0);
    list.fill(0);
    await test.clock.advance(1_000);
    expect(tokens.slice(-2)).toEqual([
      [15339, 1917],
      [15339, 1917],
    ]);
  });

  it('of requests, their metadata and their bodies by fetch', async () => {
    const { session } = await begin();
    await away();
    const memory = new Uint8Array(70).fill(3);
    const form = new URLSearchParams({ a: '1' });
    const replies = [
      session.request(memory).then(({ text }) => text),
      session.request(memory, { retryUnsent: true }).then(({ text }) => text),
      session.fetch('/', { method: 'POST', body: memory }).then((response) => response.text()),
      session.fetch('/', { method: 'POST', body: Buffer.from(memory.buffer) }).then((given) => given.text()),
      session.fetch('/', { method: 'POST', body: form }).then((response) => response.text()),
    ];
    memory.fill(0xee);
    form.set('a', '2');
    await back();
    const expected = Buffer.alloc(70, 3).toString('hex');
    expect(await Promise.all(replies)).toEqual([
      ...Array(4).fill(expected),
      Buffer.from('a=1').toString('hex'),
    ]);
  });

  it('of calls with retry, in the session after a lost one', async () => {
    const { session, got } = await begin();
    await away();
    const memory = new Uint8Array([1, 1]);
    void session.send(memory, { retryUnsent: true });
    memory.fill(9);
    await test?.clock.advance(200_000);
    await back();
    await test?.clock.advance(60_000);
    expect(got).toEqual(['0101']);
  });

  it.each([undefined, { ms: 20, bytes: 1_000 }])('of yielded parts, batched with %j', async (batch) => {
    test = await createTestServer({
      async *onRequest(_request, context) {
        context.setBatch(batch);
        const memory = Buffer.alloc(64);
        for (let at = 0; at < 50; at++) yield memory.fill(at);
        memory.fill(0xee);
      },
    });
    const session = await test.connect();
    const got: number[] = [];
    const reading = (async () => {
      for await (const part of session.stream('x')) got.push(...new Set(part.bytes));
    })();
    await test.clock.advance(1_000);
    await reading;
    expect(got).toEqual(Array.from({ length: 50 }, (_, at) => at));
  });

  it('of chunks of a streamed body whose producer has one buffer', async () => {
    const { session } = await begin();
    async function* chunks(): AsyncGenerator<Uint8Array> {
      const memory = Buffer.from('\u00e9\u00e9');
      for (const at of [1, 2, 3]) {
        // The first three bytes end within a character.
        yield memory.fill(`\u00e9\u00e9`).subarray(0, 3);
        yield memory.fill(0xa9).subarray(0, 1);
        yield memory.fill(at).subarray(0, 1);
      }
    }
    const init = { method: 'POST', headers: { 'content-type': 'text/plain' }, duplex: 'half' };
    const reply = session.fetch('/', { ...init, body: chunks() as never } as RequestInit);
    await test?.clock.advance(1_000);
    expect(await (await reply).text()).toBe('c3a9c3a901c3a9c3a902c3a9c3a903');
  });

  it('of a group, for a member whose connection is away', async () => {
    test = await createTestServer({ onSession() {} });
    const { server } = test;
    const got: string[] = [];
    const session = await test.connect({ extensions: { context: false } });
    const reading = (async () => {
      for await (const message of session) got.push(Buffer.from(message.bytes).toString('hex'));
    })();
    // Virtual time that passes while the test closes its server may be more than the session is kept for.
    reading.catch(() => {});
    await test.clock.advance(10);
    const group = server.group('all');
    for (const one of server.sessions.values()) group.add(one);
    await away();
    const memory = new Uint8Array([1, 1]);
    void group.send(memory);
    memory.fill(9);
    await back();
    expect(got).toEqual(['0101']);
  });

  it('of a protected session, and of its key', async () => {
    const got: string[] = [];
    const own = key.slice();
    test = await createTestServer({
      security: { mode: 'AEAD', key },
      async onSession(session) {
        for await (const message of session) got.push(message.text);
      },
    });
    const session = await test.connect({ security: { mode: 'AEAD', key: own } });
    own.fill(0);
    await away();
    const memory = Buffer.from('hello');
    void session.send(memory);
    memory.fill(120);
    await back();
    expect(got).toEqual(['hello']);
  });
});
