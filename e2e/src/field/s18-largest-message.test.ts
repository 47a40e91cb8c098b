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
