import { Subprotocol } from '@parlance/client';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers, failure } from '../kit/peers.js';

/** A `Blob` as a message, a request, a reply and a part of one. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const BYTES = Uint8Array.from({ length: 1_000 }, (_, i) => i);

describe.each(Object.values(Subprotocol))('a Blob in %s', (subprotocol) => {
  it('arrives as its bytes, and what is sent after it arrives after it', async () => {
    const heard: string[] = [];
    const { url } = await peers.serve({
      async onSession(session) {
        for await (const message of session) heard.push(Buffer.from(message.bytes).toString('latin1'));
      },
      async *onRequest(request) {
        yield new Blob(['part ']);
        yield new Blob([request.bytes.slice()]);
      },
    });
    const session = await peers.dial(url, { subprotocol });
    // JSON carries text only.
    const bytes = subprotocol === Subprotocol.JSON ? new TextEncoder().encode('text') : BYTES;
    const bodies = [
      'before',
      new Blob([bytes]),
      'between',
      new File(['in a file'], 'a.txt'),
      new Blob([]),
      'after',
    ];
    await Promise.all(bodies.map((body) => session.send(body)));
    const latin = Buffer.from(bytes).toString('latin1');
    await expect.poll(() => heard).toEqual(['before', latin, 'between', 'in a file', '', 'after']);
    if (subprotocol === Subprotocol.JSON) return;
    expect((await session.request(new Blob([BYTES]))).bytes.length).toBe(1_005);
    const parts: string[] = [];
    for await (const part of session.stream(new Blob(['asked']), { retryUnsent: true }))
      parts.push(part.text);
    expect(parts).toEqual(['part ', 'asked']);
  });
});

it('a Blob is a whole reply, too', async () => {
  const { url } = await peers.serve({ onRequest: async () => new Blob([BYTES]) });
  const session = await peers.dial(url);
  expect((await session.request('x')).bytes).toEqual(BYTES);
});

describe('a Blob that cannot be sent', () => {
  class Unread extends Blob {
    static reads = 0;
    override arrayBuffer(): Promise<ArrayBuffer> {
      Unread.reads++;
      return super.arrayBuffer();
    }
  }

  it('because it is too large is not even read', async () => {
    const heard: number[] = [];
    const { url } = await peers.serve({
      limits: { maxMessageSize: 1_000 },
      async onSession(session) {
        for await (const message of session) heard.push(message.bytes.length);
      },
      onRequest: () => new Unread([BYTES, 'x']),
    });
    const session = await peers.dial(url);
    const tooLarge = { code: 'message_too_large' };
    expect(await failure(session.send(new Unread([BYTES, 'x'])))).toMatchObject(tooLarge);
    expect(await failure(session.request(new Unread([BYTES, 'x'])))).toMatchObject(tooLarge);
    expect(await failure(session.request('x'))).toMatchObject({ ...tooLarge, side: 'remote' });
    expect(Unread.reads).toBe(0);
    await session.send(new Unread([BYTES]));
    await session.flush();
    await expect.poll(() => heard).toEqual([1_000]);
  });

  it('because it cannot be read fails alone', async () => {
    const heard: string[] = [];
    const { url } = await peers.serve({
      async onSession(session) {
        for await (const message of session) heard.push(message.text);
      },
    });
    const session = await peers.dial(url);
    const gone = Object.assign(new Blob(['abc']), {
      arrayBuffer: () => Promise.reject(new Error('it is gone')),
    });
    const [error] = await Promise.all([failure(session.send(gone)), session.send('after')]);
    expect(error).toMatchObject({ code: 'invalid_argument', cause: new Error('it is gone') });
    await expect.poll(() => heard).toEqual(['after']);
  });
});
