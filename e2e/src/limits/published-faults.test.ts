import { randomBytes } from 'node:crypto';
import { connect as connectTcp } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { brotliCompressSync } from 'node:zlib';
import {
  CloseCode,
  type ControlMessage,
  decodeAvp,
  decodeKvCache,
  decodeLinkFrame,
  encodeControl,
  LinkKind,
  ProtocolError,
  resolveLimits,
} from '@parlance/protocol';
import { closeReasonOf } from '@parlance/protocol/internal';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { serverEndpoint } from '../kit/endpoints.js';
import { createPeers, greet, helloBytes, openRaw, type RawPeer } from '../kit/peers.js';

/**
 * Published vulnerabilities of other servers of this kind, each by its name. Many have tests of their own
 * beside the code; these tests use a real socket.
 */

const peers = createPeers();
const faults: unknown[] = [];
const onFault = (error: unknown) => void faults.push(error);
beforeEach(() => {
  faults.length = 0;
  process.on('uncaughtException', onFault);
  process.on('unhandledRejection', onFault);
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  process.off('uncaughtException', onFault);
  process.off('unhandledRejection', onFault);
  expect(faults).toEqual([]);
});

const KIB = 1024;
const UNLIMITED = {
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
  messagesPerMinute: Infinity,
  bytesPerSecond: Infinity,
  controlMessagesPerMinute: Infinity,
};
const WITH_RESUME = { link: '{}', resume: '{}' };
/** 1005 is a connection that was closed without a code, as the test itself does. */
const DOCUMENTED = new Set<number>([...Object.values(CloseCode), 1005]);

const control = (peer: { sessionId: string }, type: string, payload: object = {}) =>
  encodeControl({ type, sessionId: peer.sessionId, timestamp: 1, payload } as ControlMessage);

/** A link frame by hand; stream IDs up to 16,383. */
const frame = (kind: LinkKind, streamId: number, ...rest: number[]) => {
  const id = streamId < 0x80 ? [streamId] : [(streamId & 0x7f) | 0x80, streamId >> 7];
  return Uint8Array.of(0x10 | kind, ...id, ...rest);
};
const request = (streamId: number, ...body: number[]) => frame(LinkKind.REQUEST, streamId, 0, ...body);

const kindsOf = (peer: RawPeer) =>
  peer.received
    .filter((bytes): bytes is Uint8Array => typeof bytes !== 'string' && (bytes[0] as number) >> 4 === 1)
    .map((bytes) => decodeLinkFrame(bytes).kind);

describe('fragment and header floods (ws CVE-2024-37890 and later)', () => {
  it('of endless continuations end the connection', async () => {
    const { url, server } = await peers.serve({ limits: { maxFragments: 100 } });
    const peer = await greet(url);
    for (let i = 0; i < 1_000; i++) peer.socket.send(new Uint8Array(1), { fin: false });
    expect(DOCUMENTED).toContain((await peer.closed).code);
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('of thousands of headers are refused in HTTP', async () => {
    const { port } = await peers.serve();
    for (const headers of [
      'X-H: y\r\n'.repeat(5_000),
      `X-H: ${'y'.repeat(100_000)}\r\n`,
      'X\r\n'.repeat(3_000),
    ]) {
      const answer = await new Promise<string>((resolve) => {
        const socket = connectTcp(port, '127.0.0.1');
        let text = '';
        socket.on('error', () => {});
        socket.on('data', (chunk) => {
          text += chunk.toString('latin1');
        });
        socket.on('close', () => resolve(text));
        socket.end(`GET /session HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`);
      });
      expect(answer).toMatch(/^(HTTP\/1\.1 4\d\d|$)/);
    }
  });
});

describe('__proto__ as a session ID (engine.io)', () => {
  it.each(['__proto__', 'constructor', 'hasOwnProperty', 'toString', ''.padEnd(128, '_')])(
    'finds no session named %s',
    async (sessionId) => {
      const { url, server } = await peers.serve();
      const peer = await openRaw(url);
      const resume = { sessionId, token: 'x'.repeat(32), received: 0, attempt: 1 };
      peer.send(helloBytes({ extensions: WITH_RESUME, resume }));
      const accept = await peer.control('ACCEPT');
      expect(accept.payload.resume).toMatchObject({ recovered: false, reason: 'unknown_session' });
      expect([...server.sessions.keys()]).toEqual([accept.sessionId]);
      peer.send(control({ sessionId }, 'PING'));
      expect((await peer.closed).code).toBe(CloseCode.BAD_FRAME);
    },
  );
});

describe('a protocol revision that is switched in mid-session', () => {
  it('ends the session: the negotiated one is fixed', async () => {
    const { url, server } = await peers.serve();
    for (const again of [
      helloBytes({ version: '3.0' }),
      helloBytes(),
      helloBytes({ algorithms: ['NONE'] }),
    ]) {
      const peer = await greet(url);
      peer.send(again);
      expect((await peer.closed).code).toBe(CloseCode.BAD_FRAME);
    }
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('by a resume with another offer begins a new session instead', async () => {
    const { url } = await peers.serve();
    const peer = await greet(url, { extensions: WITH_RESUME });
    const resume = { sessionId: peer.sessionId, token: peer.resumeToken as string, received: 0, attempt: 1 };
    const other = await openRaw(url);
    other.send(helloBytes({ extensions: WITH_RESUME, resume, algorithms: ['NONE'] }));
    expect((await other.control('ACCEPT')).payload.resume).toMatchObject({
      recovered: false,
      reason: 'other_offer',
    });
    for (const each of [peer, other]) each.socket.close();
  });
});

describe('attachment-count exhaustion (socket.io-parser)', () => {
  it('by claimed lengths and counts ends the session before anything is collected', async () => {
    const { url } = await peers.serve({ limits: UNLIMITED });
    const huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    const claims: [string, Uint8Array][] = [
      ['a MessagePack map of 2^32 entries', Uint8Array.of(0xdf, 0xff, 0xff, 0xff, 0xff)],
      [
        'a list of 2^32 names',
        Uint8Array.of(0x81, 0xa4, 0x74, 0x79, 0x70, 0x65, 0xdd, 0xff, 0xff, 0xff, 0xff),
      ],
      ['bytes without end', Uint8Array.of(0x81, 0xa1, 0x78, 0xc6, 0xff, 0xff, 0xff, 0xff)],
      ['a body of 4 GiB in fragments', frame(LinkKind.MESSAGE, 0, 0x10, ...huge, 1)],
      ['a body that expands to 4 GiB', frame(LinkKind.MESSAGE, 0, 3, ...huge, 1)],
      ['metadata of 4 GiB', frame(LinkKind.MESSAGE, 0, 0x80, ...huge, 1)],
    ];
    for (const [what, bytes] of claims) {
      const peer = await greet(url);
      const before = process.memoryUsage().arrayBuffers;
      peer.send(bytes);
      const { code } = await peer.closed;
      expect([what, code]).toEqual([what, expect.toSatisfy((c) => c === 4400 || c === 4413)]);
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * KIB * KIB);
    }
  });
});

describe('an uncaught exception on malformed input (engine.io, ws and many more)', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc
      .tuple(
        fc.constantFrom(0x00, 0x10, 0x11, 0x13, 0x15, 0x16, 0x18, 0x19, 0x23, 0x41, 0x81, 0x84, 0xde),
        fc.uint8Array({ maxLength: 40 }),
      )
      .map(([first, rest]) => Uint8Array.of(first, ...rest)),
    fc
      .tuple(
        fc.constantFrom('HELLO', 'ACCEPT', 'REJECT', 'DATA', 'PING', 'PONG', 'CLOSE', 'AUTH', 'GOAWAY', 'X'),
        fc.jsonValue({ maxDepth: 2 }),
      )
      .map(([type, payload]) => encodeLoosely(type, payload)),
  );
  /** An envelope with any payload. */
  const encodeLoosely = (type: string, payload: unknown) => {
    try {
      return encodeControl({ type, sessionId: null, timestamp: 1, payload } as never);
    } catch {
      return new Uint8Array(0);
    }
  };
  const check = (property: (input: Uint8Array[]) => Promise<void>, numRuns = 60) =>
    fc.assert(fc.asyncProperty(fc.array(bytes, { minLength: 1, maxLength: 4 }), property), { numRuns });
  const throwAt = async (peer: RawPeer, input: readonly Uint8Array[]) => {
    for (const each of input) if (peer.socket.readyState === WebSocket.OPEN) peer.send(each);
    await pause(1);
  };

  it('never results from bytes at the upgrade', async () => {
    const { port } = await peers.serve();
    await fc.assert(
      fc.asyncProperty(fc.string({ maxLength: 300 }), fc.boolean(), async (text, asHeader) => {
        const socket = connectTcp(port, '127.0.0.1');
        socket.on('error', () => {});
        const closed = new Promise((resolve) => socket.on('close', resolve));
        const head =
          'GET /session HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n';
        socket.write(asHeader ? `${head}Sec-WebSocket-Protocol: m2m.v1\r\nX: ${text}\r\n\r\n` : text);
        socket.resume().end();
        await closed;
      }),
      { numRuns: 60 },
    );
  });

  it('never results from bytes in place of HELLO', async () => {
    const { url, server } = await peers.serve({ limits: UNLIMITED });
    await check(async (input) => {
      const peer = await openRaw(url);
      await throwAt(peer, input);
      peer.socket.close();
      expect(DOCUMENTED).toContain((await peer.closed).code);
    });
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('never results from bytes in an established session', async () => {
    const { url, server } = await peers.serve({
      limits: UNLIMITED,
      onRequest: (message) => message.text,
      onSession: async (session) => {
        for await (const message of session) void message.codedLength;
      },
      authenticate: () => ({ principal: 'u', expiresAt: Date.now() + 60_000 }),
    });
    await check(async (input) => {
      const peer = await greet(url);
      await throwAt(peer, input);
      peer.socket.close();
      expect(DOCUMENTED).toContain((await peer.closed).code);
    });
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('never results from bytes in place of, or after, the HELLO that resumes a session', async () => {
    const { url, server } = await peers.serve({ limits: UNLIMITED, onRequest: (message) => message.text });
    await check(async (input) => {
      const owner = await greet(url, { extensions: WITH_RESUME });
      owner.socket.terminate();
      await expect.poll(() => server.sessions.get(owner.sessionId)?.state, { interval: 1 }).toBe('suspended');
      const stranger = await openRaw(url);
      await throwAt(stranger, input);
      const { sessionId, resumeToken: token = '' } = owner;
      const heir = await openRaw(url);
      heir.send(
        helloBytes({
          extensions: WITH_RESUME,
          resume: { sessionId, token, received: input.length % 2, attempt: 1 },
        }),
      );
      await throwAt(heir, input);
      for (const peer of [stranger, heir]) {
        peer.socket.close();
        expect(DOCUMENTED).toContain((await peer.closed).code);
      }
    }, 40);
  });

  it('never results from bytes in a session that closes', async () => {
    const { url, server } = await peers.serve({ limits: UNLIMITED, timers: { closingTimeoutMs: 50 } });
    await check(async (input) => {
      const peer = await greet(url);
      const closing = server.sessions.get(peer.sessionId)?.close();
      await peer.control('CLOSE');
      await throwAt(peer, input);
      await closing;
      expect(DOCUMENTED).toContain((await peer.closed).code);
    }, 40);
    await expect.poll(() => server.sessions.size).toBe(0);
  });
});

describe('cross-site WebSocket hijacking of local agent tools', () => {
  it('is refused with 4403 on loopback, and an admitted origin still needs a token', async () => {
    const { url, server } = await peers.serve({
      origins: ['https://app.example'],
      authenticate: ({ token }) => (token === 'good' ? { principal: 'u1' } : null),
    });
    for (const [origin, token, code] of [
      ['https://evil.example', 'good', CloseCode.FORBIDDEN],
      ['http://localhost', 'good', CloseCode.FORBIDDEN],
      ['https://app.example', undefined, CloseCode.UNAUTHENTICATED],
    ] as const) {
      const peer = await openRaw(url, { origin });
      peer.send(helloBytes({ auth: token && { token } }));
      await peer.control('REJECT');
      expect((await peer.closed).code).toBe(code);
    }
    expect(server.sessions.size).toBe(0);
  });
});

describe('a resume token that is checked after state was touched (colyseus)', () => {
  it('is checked before: a wrong one does not even disturb the connection', async () => {
    const { url } = await peers.serve({ onRequest: () => 'ok' });
    const owner = await greet(url, { extensions: WITH_RESUME });
    for (const token of ['x', 'x'.repeat(32), '__proto__']) {
      const thief = await openRaw(url);
      const resume = { sessionId: owner.sessionId, token, received: 2 ** 40, attempt: 2 ** 40 };
      thief.send(helloBytes({ extensions: WITH_RESUME, resume }));
      await thief.control('ACCEPT');
      thief.socket.close();
    }
    owner.send(request(1, 0x78));
    await expect.poll(() => kindsOf(owner)).toContain(LinkKind.RESPONSE);
    // Nor did any of them use up an attempt.
    const { sessionId, resumeToken: token = '' } = owner;
    const heir = await openRaw(url);
    heir.send(helloBytes({ extensions: WITH_RESUME, resume: { sessionId, token, received: 0, attempt: 1 } }));
    expect((await heir.control('ACCEPT')).payload.resume?.recovered).toBe(true);
    expect((await owner.closed).code).toBe(CloseCode.TAKEN_OVER);
    heir.socket.close();
  });
});

describe('a resume that is replayed across principals (frontmcp)', () => {
  it('finds no session, even with a stolen token', async () => {
    const { url, server } = await peers.serve({
      authenticate: ({ token }) => ({ principal: token ?? 'anonymous' }),
    });
    const owner = await greet(url, { auth: { token: 'u1' }, extensions: WITH_RESUME });
    const { sessionId, resumeToken: token = '' } = owner;
    const thief = await openRaw(url);
    thief.send(
      helloBytes({
        auth: { token: 'u2' },
        extensions: WITH_RESUME,
        resume: { sessionId, token, received: 0, attempt: 1 },
      }),
    );
    const accept = await thief.control('ACCEPT');
    expect(accept.payload.resume).toMatchObject({ recovered: false, reason: 'unknown_session' });
    expect(server.sessions.get(accept.sessionId as string)?.principal).toBe('u2');
    expect(owner.socket.readyState).toBe(WebSocket.OPEN);
    for (const peer of [owner, thief]) peer.socket.close();
  });
});

describe('a close reason over 123 bytes (ws and others crash, or cut a character)', () => {
  it('is cut between characters', async () => {
    const { url, server } = await peers.serve();
    const peer = await greet(url);
    const error = new ProtocolError('internal', `${'ü'.repeat(50)}${'👩‍👩‍👧'.repeat(50)}`);
    serverEndpoint(server.sessions.get(peer.sessionId)).abort(error);
    const { code, reason } = await peer.closed;
    expect(code).toBe(CloseCode.INTERNAL);
    expect(reason).toBe(closeReasonOf(error));
    expect(Buffer.byteLength(reason)).toBeLessThanOrEqual(123);
    expect(reason).not.toContain('\ufffd');
  });

  it('is cut in the reason for a refusal', async () => {
    const { url } = await peers.serve();
    const peer = await openRaw(url, { origin: `https://${'x'.repeat(500)}.example` });
    const { message } = (await peer.control('REJECT')).payload;
    const { code, reason } = await peer.closed;
    expect([code, Buffer.byteLength(reason)]).toEqual([CloseCode.FORBIDDEN, 123]);
    expect(message.startsWith(reason)).toBe(true);
  });
});

describe('a slow consumer that grows memory without bound (socket.io, ws, WebSocketStream)', () => {
  it('of a reply holds its handler back', async () => {
    let yielded = 0;
    const part = { bytes: randomBytes(16 * KIB) };
    const { url } = await peers.serve({
      limits: UNLIMITED,
      async *onRequest() {
        for (;;) {
          yield part;
          yielded++;
        }
      },
    });
    const peer = await greet(url, { extensions: WITH_RESUME });
    peer.socket.pause();
    peer.send(request(1, 0x78));
    await settled(() => yielded);
    // The socket's buffer, the queue behind it, and what the kernel took.
    expect(yielded * part.bytes.length).toBeLessThan(8 * KIB * KIB);
    peer.socket.terminate();
  });

  it('of replies gets no more requests accepted than it may have streams', async () => {
    let asked = 0;
    const reply = { bytes: randomBytes(64 * KIB) };
    const { url, server } = await peers.serve({
      limits: { ...UNLIMITED, maxStreams: 16 },
      onRequest: () => {
        asked++;
        return reply;
      },
    });
    const peer = await greet(url, { extensions: WITH_RESUME });
    peer.socket.pause();
    for (let i = 0; i < 400; i++) peer.send(request(1 + 2 * i, 0x78));
    // More requests end the session, because an honest client respects the limit.
    await expect.poll(() => server.sessions.size).toBe(0);
    expect(asked).toBeLessThan(200);
    peer.socket.terminate();
  });

  it('that reads and never acknowledges is sent no more than may be kept', async () => {
    let yielded = 0;
    const part = { bytes: randomBytes(16 * KIB) };
    const { url } = await peers.serve({
      limits: { ...UNLIMITED, sessionWindow: 512 * KIB },
      async *onRequest() {
        for (;;) {
          yield part;
          yielded++;
        }
      },
    });
    // A link without windows accepts everything.
    const peer = await greet(url, { extensions: WITH_RESUME });
    peer.send(request(1, 0x78));
    await settled(() => yielded);
    expect(yielded * part.bytes.length).toBeLessThan(3 * KIB * KIB);
    peer.socket.terminate();
  });

  it('of PONGs is closed with 4429', async () => {
    const { url, server } = await peers.serve({ limits: UNLIMITED });
    const peer = await greet(url);
    peer.socket.pause();
    const ping = control(peer, 'PING');
    for (let i = 0; i < 200 && server.sessions.size > 0; i++) {
      for (let j = 0; j < 1_000; j++) peer.send(ping);
      await pause(1);
    }
    await expect.poll(() => server.sessions.size).toBe(0);
    peer.socket.terminate();
  });

  it('that sends bare messages without credit has its connection paused', async () => {
    const { url, server } = await peers.serve({
      limits: { ...UNLIMITED, sessionWindow: 256 * KIB, maxMessageSize: 64 * KIB },
      // Reads later.
      onSession() {},
    });
    const peer = await greet(url, { extensions: {} });
    const message = `${'x'.repeat(32 * KIB)}`;
    for (let i = 0; i < 1_000; i++) peer.send(message);
    const session = server.sessions.get(peer.sessionId);
    const received = () => session?.stats().received.contentBytes ?? 0;
    await settled(received);
    expect(received()).toBeLessThan(512 * KIB);
    expect(session?.state).toBe('established');
    // Reading the connection resumes with the application.
    let read = 0;
    for await (const _message of session as AsyncIterable<unknown>) if (++read === 1_000) break;
    expect(received()).toBe(1_000 * message.length);
    peer.socket.terminate();
  });

  /** Waits until a figure does not change any more. */
  async function settled(figure: () => number): Promise<void> {
    for (let last = Number.NaN; last !== figure(); ) {
      last = figure();
      await pause(150);
    }
  }
});

describe('decompression bombs (64 MiB of 151 bytes, 1 GiB of 32 KB)', () => {
  const bomb = brotliCompressSync(new Uint8Array(64 * KIB * KIB));
  const varint = (value: number): number[] =>
    value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(Math.floor(value / 0x80))];

  it('that state their size are refused with 4413', async () => {
    const { url } = await peers.serve({ limits: { maxMessageSize: KIB * KIB } });
    const peer = await greet(url);
    peer.send(frame(LinkKind.MESSAGE, 0, 3, ...varint(64 * KIB * KIB), ...bomb));
    expect((await peer.closed).code).toBe(CloseCode.TOO_LARGE);
  });

  it('that understate it fail when they are read, and expand no further than stated', async () => {
    const errors: unknown[] = [];
    const { url } = await peers.serve({
      async onSession(session) {
        for await (const message of session) {
          try {
            errors.push(message.bytes.length);
          } catch (error) {
            errors.push((error as ProtocolError).code);
          }
        }
      },
    });
    const peer = await greet(url);
    const before = process.memoryUsage().arrayBuffers;
    peer.send(frame(LinkKind.MESSAGE, 0, 3, ...varint(1_000), ...bomb));
    await expect.poll(() => errors.length).toBe(1);
    expect(errors[0]).toMatch(/decompressed_too_large|bad_compression/);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * KIB * KIB);
    peer.socket.close();
  });

  it('of AVP and KV headers are not believed (a million layers in 17 bytes)', () => {
    const kv = new Uint8Array(17);
    new DataView(kv.buffer).setUint32(0, 1_000_000, true);
    for (const at of [4, 8, 12]) new DataView(kv.buffer).setUint32(at, 1, true);
    expect(() => decodeKvCache(kv)).toThrow(ProtocolError);
    const avp = new Uint8Array(64);
    avp.set([0x41, 0x56, 0x01, 0x01]);
    new DataView(avp.buffer).setUint32(4, 0xffffffff, true);
    expect(() => decodeAvp(avp, { limits: resolveLimits() } as never)).toThrow(ProtocolError);
  });
});

describe('rapid reset (HTTP/2)', () => {
  it('evades no limit on open streams: a slot is held until the handler has returned', async () => {
    let running = 0;
    let most = 0;
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { url } = await peers.serve({
      limits: { ...UNLIMITED, maxStreams: 8 },
      async onRequest() {
        most = Math.max(most, ++running);
        await held;
        running--;
        return 'late';
      },
    });
    const peer = await greet(url);
    for (let i = 0; i < 9; i++) {
      peer.send(request(1 + 2 * i, 0x78));
      // One that is reset before its handler begins holds nothing.
      if (i < 8) await expect.poll(() => running).toBe(i + 1);
      peer.send(frame(LinkKind.CANCEL, 1 + 2 * i));
    }
    const { code, reason } = await peer.closed;
    expect([code, reason]).toEqual([CloseCode.BAD_FRAME, expect.stringMatching(/^too_many_streams/)]);
    expect(most).toBe(8);
    release();
  });

  it.each([
    ['one by one', true],
    ['together with its reset', false],
  ])('counts towards the rate, each open %s: 3 n + 1 of them close with 4429', async (_, isAlone) => {
    let asked = 0;
    const { url } = await peers.serve({
      limits: { messagesPerMinute: 10 },
      onRequest: () => {
        asked++;
        return 'ok';
      },
    });
    const peer = await greet(url);
    for (let i = 0; i < 31; i++) {
      peer.send(request(1 + 2 * i, 0x78));
      if (isAlone && i < 20) await expect.poll(() => asked).toBe(i + 1);
      peer.send(frame(LinkKind.CANCEL, 1 + 2 * i));
    }
    expect((await peer.closed).code).toBe(CloseCode.RATE_LIMITED);
    if (isAlone) expect(asked).toBe(20);
    else expect(asked).toBeLessThanOrEqual(20);
  });
});

describe('a poison frame that resume replays for ever', () => {
  it('destroys the session with its token, and the next connection finds nothing', async () => {
    const { url, server } = await peers.serve();
    const peer = await greet(url, { extensions: WITH_RESUME });
    peer.send(frame(LinkKind.MESSAGE, 0, 0x0f, 1));
    expect((await peer.closed).code).toBe(CloseCode.BAD_FRAME);
    expect(server.sessions.size).toBe(0);
    const { sessionId, resumeToken: token = '' } = peer;
    const heir = await openRaw(url);
    heir.send(helloBytes({ extensions: WITH_RESUME, resume: { sessionId, token, received: 0, attempt: 1 } }));
    expect((await heir.control('ACCEPT')).payload.resume).toMatchObject({
      recovered: false,
      reason: 'unknown_session',
    });
    heir.socket.close();
  });
});

describe('ReDoS in header parsing', () => {
  it('does not occur for 8 KB of header that are hard on patterns', async () => {
    const { url } = await peers.serve({
      origins: ['https://app.example'],
      trustedProxies: ['127.0.0.1'],
      authenticate: ({ headers }) => (headers === undefined ? null : { principal: 'u1' }),
    });
    const long = (text: string) => text.repeat(Math.floor(7_000 / text.length));
    for (const headers of [
      { authorization: `Bearer ${long(' ')}x` },
      { authorization: `${long('a ')}` },
      { 'x-forwarded-for': long('1.') },
      { 'x-forwarded-for': long(',') },
      { 'x-forwarded-for': long('[::1') },
      { origin: `https://${long('a.')}example` },
      { origin: `${long('http:')}//` },
      { host: long('1.') },
    ]) {
      const outcome = openRaw(url, { headers }).then(
        (peer) => peer.socket.terminate(),
        (error: Error) => expect(error.message).toMatch(/Unexpected server response: 4\d\d/),
      );
      await outcome;
    }
  });
});

describe('sizes and timing of one-token frames that reveal topics (Whisper Leak)', () => {
  it('are those of the parts that a handler yields: batching hides them', async () => {
    const tokens = Array.from({ length: 64 }, (_, i) => 1_000 + i);
    const { url } = await peers.serve({
      async *onRequest(message) {
        const size = Number(message.text);
        for (let i = 0; i < tokens.length; i += size) yield { tokens: tokens.slice(i, i + size) };
      },
    });
    for (const [size, frames] of [
      [1, 64],
      [16, 4],
    ] as const) {
      const peer = await greet(url);
      peer.send(request(1, ...new TextEncoder().encode(String(size))));
      await expect.poll(() => kindsOf(peer)).toContain(LinkKind.END);
      expect(kindsOf(peer).filter((kind) => kind === LinkKind.CHUNK)).toHaveLength(frames);
      peer.socket.close();
    }
  });
});
