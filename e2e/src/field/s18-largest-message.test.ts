import { createHash, randomBytes } from 'node:crypto';
import { connect } from '@parlance/client';
import { createServer, type Server } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';

/** Messages as large as the application allows, which are larger than the memory of one session by default. */

const MIB = 1024 * 1024;
const maxMessageSize = 64 * MIB;

let server: Server | undefined;
afterEach(() => server?.close());

const digestOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

async function serve(processMemory?: number) {
  server = createServer({
    limits: { maxMessageSize, bytesPerSecond: Infinity },
    processMemory,
    authenticate: () => ({ principal: 'one' }),
    onRequest: ({ bytes }) => digestOf(bytes),
  });
  const { port } = await server.listen();
  return await connect(`ws://127.0.0.1:${port}/session`, { WebSocket, token: 'x' });
}

describe('a message of the largest size', () => {
  it.each([
    ['with the default memory of a process', undefined],
    ['with the least memory that the server takes with it', 4 * maxMessageSize],
  ])('%s is served, again and again', async (_, processMemory) => {
    const session = await serve(processMemory);
    for (const size of [33 * MIB, maxMessageSize, maxMessageSize]) {
      const bytes = randomBytes(size);
      const { text } = await session.request(bytes, { algorithm: 'NONE' });
      expect(text).toBe(digestOf(bytes));
    }
    await expect(session.request(new Uint8Array(maxMessageSize + 1))).rejects.toMatchObject({
      code: 'message_too_large',
    });
    await session.close();
  });
});

describe('a body of exactly the largest size', () => {
  const kinds = [{ algorithm: 'BROTLI' }, { algorithm: 'NONE' }, {}] as const;

  it('is served, whatever it consists of and however it is sent, and one byte more is not', async () => {
    const size = MIB;
    server = createServer({
      limits: { maxMessageSize: size, bytesPerSecond: Infinity },
      authenticate: () => ({ principal: 'one' }),
      onRequest: ({ bytes }) => digestOf(bytes),
      onFetch: async (request) => new Response(digestOf(new Uint8Array(await request.arrayBuffer()))),
    });
    const { port } = await server.listen();
    for (const extensions of [{}, { context: false }]) {
      const url = `ws://127.0.0.1:${port}/session`;
      const session = await connect(url, { WebSocket, token: 'x', extensions });
      for (const bytes of [
        new Uint8Array(size),
        randomBytes(size),
        Buffer.from('words '.repeat(size)).subarray(0, size),
      ]) {
        const digest = digestOf(bytes);
        const post = { method: 'POST', body: bytes };
        expect(await (await session.fetch('/', post)).text()).toBe(digest);
        for (const options of kinds) expect((await session.request(bytes, options)).text).toBe(digest);
        const longer = Buffer.concat([bytes, Uint8Array.of(0)]);
        for (const options of kinds)
          await expect(session.request(longer, options)).rejects.toMatchObject({ code: 'message_too_large' });
      }
      const text = 'x'.repeat(size);
      expect((await session.request(text)).text).toBe(digestOf(Buffer.from(text)));
      expect(await (await session.fetch('/', { method: 'POST', body: text })).text()).toBe(
        digestOf(Buffer.from(text)),
      );
      await session.close();
    }
  });
});
