import { encodeControl, LinkKind, ProtocolError, type RequestHandler } from '@parlance/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers, greet, helloBytes, openRaw, type RawPeer } from '../kit/peers.js';

/** Well-formed frames with undecodable content: who is notified, and with which code. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const PLAIN = 0x00;
const TOKENS = 0x01;
const BROTLI = 0x03;
const META = 0x80;
/** Codec byte and everything after it on the first frame of a body. */
const UNDECODABLE = {
  bad_utf8: [PLAIN, 0xff],
  bad_token: [TOKENS, 0xff, 0xff, 0x7f],
  bad_varint: [TOKENS, 0x80, 0x00],
  truncated: [TOKENS, 0x80],
  bad_compression: [BROTLI, 0x05, 1, 2, 3],
  bad_message: [PLAIN | META, 1, 0xc1, 0x61],
} as const;

const errorsOf = (peer: RawPeer) =>
  peer.received
    .filter((bytes): bytes is Uint8Array => bytes[0] === (0x10 | LinkKind.ERROR))
    .map((bytes) => /code.([a-z0-9_]+)\xa7message/.exec(Buffer.from(bytes).toString('latin1'))?.[1]);

describe('a request that cannot be decoded', () => {
  const onRequest: RequestHandler = (request) => request.text;

  it.each(Object.entries(UNDECODABLE))('is reported to its requester as %s', async (code, body) => {
    const { url } = await peers.serve({ onRequest });
    const peer = await greet(url);
    peer.send(Uint8Array.of(0x10 | LinkKind.REQUEST, 1, ...body));
    await expect.poll(() => errorsOf(peer)).toEqual([code]);
    // Later requests still work.
    peer.send(Uint8Array.of(0x10 | LinkKind.REQUEST, 3, PLAIN, 0x68, 0x69));
    await expect
      .poll(() => peer.received.some((bytes) => bytes[0] === (0x10 | LinkKind.RESPONSE) && bytes[1] === 3))
      .toBe(true);
    peer.socket.close();
  });

  it('is reported to a client with the same code', async () => {
    const { url } = await peers.serve({ onRequest: (request) => request.json<string>() });
    const session = await peers.dial(url);
    await expect(session.request('no JSON')).rejects.toMatchObject({
      name: 'ProtocolError',
      code: 'bad_json',
      side: 'remote',
    });
  });

  it('does not hide other errors of the handler', async () => {
    const { url } = await peers.serve({
      onRequest() {
        throw new ProtocolError('bad_utf8', 'of a file of mine');
      },
    });
    const session = await peers.dial(url);
    await expect(session.request('a question')).rejects.toMatchObject({ code: 'internal' });
  });
});

describe('a message that cannot be decoded', () => {
  it.each(Object.entries(UNDECODABLE))(
    'ends the session with 4400 and %s when its reader asks for it',
    async (code, body) => {
      const { url } = await peers.serve({
        async onSession(session) {
          for await (const message of session) void [message.metadata, message.text];
        },
      });
      const peer = await greet(url);
      peer.send(Uint8Array.of(0x10 | LinkKind.MESSAGE, 0, ...body));
      expect(await peer.closed).toMatchObject({ code: 4400, reason: expect.stringMatching(`^${code}: `) });
    },
  );

  it('is not blamed on another session in which its reader fails', async () => {
    let error: unknown;
    const { url } = await peers.serve({
      async onSession(session) {
        for await (const message of session) {
          try {
            if (error === undefined) void message.text;
          } catch (caught) {
            error = caught;
          }
          if (error !== undefined && message.codedLength === 2) throw error;
        }
      },
    });
    const [first, second] = [await greet(url), await greet(url)];
    first.send(Uint8Array.of(0x10, 0, PLAIN, 0xff));
    await expect.poll(() => error).toBeDefined();
    second.send(Uint8Array.of(0x10, 0, PLAIN, 0x68, 0x69));
    expect(await second.closed).toMatchObject({ code: 4500 });
    first.socket.close();
  });
});

describe('1000 means an orderly end, and is not sent when', () => {
  it.each([
    ['zlib v2.0 came', '#M2M[v2.0]|DATA:AAAA', 'unsupported'],
    ['zlib v2.0 came in bytes', Buffer.from('#M2M[v2.0]|DATA:AAAA'), 'unsupported'],
    ['tokens came without an encoding', '#TK|C|AAAA', 'bad_frame'],
  ])('%s', async (_what, frame, code) => {
    const { url } = await peers.serve();
    const peer = await greet(url, { extensions: {}, encodings: [] });
    peer.send(frame);
    expect(await peer.closed).toMatchObject({ code: 4400, reason: expect.stringMatching(`^${code}: `) });
  });

  it('half a character came in JSON', async () => {
    const { url } = await peers.serve();
    const peer = await openRaw(url, {}, 'm2m.v1.json');
    const hello = {
      version: '1.0',
      algorithms: ['NONE'],
      encodings: [],
      extensions: {},
    };
    const said = (type: string, payload: object, sessionId: string | null) =>
      JSON.stringify({ type, session_id: sessionId, timestamp: 1, payload });
    peer.send(said('HELLO', hello, null));
    await expect.poll(() => peer.received.length).toBe(1);
    const { session_id: id } = JSON.parse(peer.received[0] as string);
    peer.send(said('DATA', { algorithm: 'NONE', content: '\ud800', original_size: 3 }, id));
    expect((await peer.closed).code).toBe(4400);
  });
});

describe('credentials that do not end', () => {
  const auth = (peer: { sessionId: string }, token: string) =>
    encodeControl({ type: 'AUTH', sessionId: peer.sessionId, timestamp: 1, payload: { token } });

  it.each([
    ['are not stated', undefined],
    ['are stated as Infinity', Number.POSITIVE_INFINITY],
  ])('that %s are still authenticated when they are renewed', async (_what, expiresAt) => {
    const { url } = await peers.serve({
      authenticate: ({ token }) =>
        token === 'wrong' ? null : { principal: token === 'other' ? 'u2' : 'u1', expiresAt },
    });
    const peer = await greet(url, { auth: { token: 'right' } });
    peer.send(auth(peer, 'also right'));
    expect((await peer.control('AUTH')).payload).toEqual({ expiresAt: null });
    peer.send(auth(peer, 'other'));
    expect((await peer.closed).code).toBe(4401);
    const next = await greet(url, { auth: { token: 'right' } });
    next.send(auth(next, 'wrong'));
    expect((await next.closed).code).toBe(4401);
  });

  it('are accepted without authenticate', async () => {
    const { url } = await peers.serve();
    const peer = await greet(url);
    peer.send(auth(peer, 'any'));
    expect((await peer.control('AUTH')).payload).toEqual({ expiresAt: null });
    peer.socket.close();
  });
});

it('the refusal of an offer of unknown algorithms does not call it empty', async () => {
  const { url } = await peers.serve();
  const peer = await openRaw(url);
  peer.send(helloBytes({ algorithms: ['FOO' as never] }));
  expect((await peer.control('REJECT')).payload.message).toMatch(/the client offers none that is known here/);
  await peer.closed;
});
