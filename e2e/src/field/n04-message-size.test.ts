import type { RequestOptions } from '@parlance/client';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers } from '../kit/peers.js';

/** The error for a message that is too large names the option, and the end that has to change it. */

let test: TestServer | undefined;
afterEach(() => test?.close());

const MIB = 1024 * 1024;
const NONE = { algorithm: 'NONE' } as const;

async function serve(maxMessageSize?: number, client?: number) {
  test = await createTestServer({
    limits: { ...(maxMessageSize !== undefined && { maxMessageSize }) },
    onRequest: ({ bytes }) => String(bytes.length),
  });
  return await test.connect(client === undefined ? {} : { limits: { maxMessageSize: client } });
}

async function ask(session: Awaited<ReturnType<typeof serve>>, size: number): Promise<unknown> {
  const answer = session.request(new Uint8Array(size), NONE).then(
    ({ text }) => Number(text),
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  );
  for (let step = 0; step < 40; step++) await test?.clock.advance(1_000);
  return await answer;
}

describe('a message that is too large', () => {
  it.each([
    [20 * MIB, 1_000, 1_000, 'of this end'],
    [1_000, undefined, 1_000, 'of the peer'],
    [20 * MIB, undefined, 20 * MIB, 'of the peer'],
    [undefined, undefined, 16 * MIB, 'of the peer'],
    [17 * MIB, 17 * MIB, 17 * MIB, 'of both ends'],
  ])('is refused with the option and its end: server %s, client %s', async (server, client, most, whose) => {
    const session = await serve(server, client);
    expect(await ask(session, most)).toBe(most);
    expect(await ask(session, most + 1)).toBe(
      `message_too_large: ${most + 1} bytes are more than the ${most} of maxMessageSize in limits ${whose}`,
    );
  });
});

describe('over sockets', () => {
  const peers = createPeers();
  afterEach(() => peers[Symbol.asyncDispose]());
  const MOST = 17 * MIB;

  /** The messages that the server gets, and its answers to requests for a size. */
  async function connected(server: number | undefined, client?: number) {
    const { url } = await peers.serve({
      limits: { ...(server !== undefined && { maxMessageSize: server }), bytesPerSecond: Infinity },
      onError: () => {},
      onRequest: ({ bytes, metadata }) =>
        metadata['size'] === undefined ? String(bytes.length) : new Uint8Array(Number(metadata['size'])),
      onFetch: async (request) => new Response(new Uint8Array((await request.arrayBuffer()).byteLength)),
    });
    return await peers.dial(url, client === undefined ? {} : { limits: { maxMessageSize: client } });
  }
  type Session = Awaited<ReturnType<typeof connected>>;
  const up = async (session: Session, size: number, options: RequestOptions = NONE) =>
    Number((await session.request(new Uint8Array(size), options)).text);
  const down = async (session: Session, size: number) =>
    (await session.request('x', { metadata: { size: String(size) } })).bytes.length;

  it('a client takes and sends what its server states, and not a byte more', async () => {
    const session = await connected(MOST);
    expect(await up(session, MOST)).toBe(MOST);
    expect(await up(session, MOST, {})).toBe(MOST);
    expect(await down(session, MOST)).toBe(MOST);
    const more = { code: 'message_too_large', message: expect.stringContaining(`${MOST} of maxMessageSize`) };
    await expect(up(session, MOST + 1)).rejects.toMatchObject({ ...more, side: 'local' });
    await expect(up(session, MOST + 1)).rejects.toThrow('in limits of the peer');
    await expect(down(session, MOST + 1)).rejects.toMatchObject({ ...more, side: 'remote' });
    // Neither has cost the session.
    expect(await down(session, 1)).toBe(1);
  });

  it('a request over HTTP has no limit of its own, in either direction', async () => {
    const session = await connected(MOST);
    for (const size of [MOST, MOST + 1]) {
      const response = await session.fetch('/', { method: 'POST', body: new Uint8Array(size).fill(255) });
      expect((await response.arrayBuffer()).byteLength).toBe(size);
    }
  });

  it('a client that sets the option keeps its own, in both directions', async () => {
    const session = await connected(MOST, 100_000);
    expect(await up(session, 100_000)).toBe(100_000);
    expect(await down(session, 100_000)).toBe(100_000);
    await expect(up(session, 100_001)).rejects.toThrow('in limits of this end');
    await expect(down(session, 100_001)).rejects.toThrow('in limits of the peer');
  });

  it.each([
    ['has the default', undefined, 16 * MIB],
    ['takes less', 1_000, 1_000],
  ])('a client follows a server that %s', async (_what, server, most) => {
    const session = await connected(server);
    expect(await up(session, most)).toBe(most);
    expect(await down(session, most)).toBe(most);
    await expect(up(session, most + 1)).rejects.toThrow('in limits of the peer');
    await expect(down(session, most + 1)).rejects.toThrow('in limits of this end');
  });

  it('a client takes more than the default from a server without a limit', async () => {
    const session = await connected(Infinity);
    expect(await up(session, MOST)).toBe(MOST);
    expect(await down(session, MOST)).toBe(MOST);
  });
});
