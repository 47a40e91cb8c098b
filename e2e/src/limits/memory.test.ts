import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { brotliCompressSync } from 'node:zlib';
import type { ClientOptions, Session } from '@parlance/client';
import {
  BodyCodec,
  decodeLinkFrame,
  encodeAvp,
  encodeTokenNative,
  LinkKind,
  loadEncoding,
  RequestError,
} from '@parlance/protocol';
import { endpointOf, MemoryBudget } from '@parlance/protocol/internal';
import type { Feature, Server } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import type { OwnHost } from '../../../packages/server/src/server/features/own-feature.js';
import { createAgents } from '../agents/agents.js';
import { createPeers, failure, greet, type RawPeer } from '../kit/peers.js';

/** The memory that peers make a server hold, observed from outside and in its own accounting. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const KIB = 1024;
const MIB = 1024 * KIB;
const UNLIMITED = { messagesPerMinute: Infinity, bytesPerSecond: Infinity };

const varint = (value: number): number[] =>
  value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(Math.floor(value / 0x80))];
/** A request in Brotli that states its decompressed size. */
const brotliRequest = (streamId: number, length: number, bytes: Uint8Array) =>
  Uint8Array.from([
    0x10 | LinkKind.REQUEST,
    ...varint(streamId),
    BodyCodec.BROTLI,
    ...varint(length),
    ...bytes,
  ]);
const errors = (peer: RawPeer) =>
  peer.received.filter(
    (bytes): bytes is Uint8Array => typeof bytes !== 'string' && bytes[0] === (0x10 | LinkKind.ERROR),
  );
const codeOf = (frame: Uint8Array) =>
  /[a-z]+(_[a-z]+)+/.exec(Buffer.from(decodeLinkFrame(frame).rest).toString())?.[0];
const memoryOf = (server: Pick<Server, 'sessions'>, id: string) =>
  endpointOf(server.sessions.get(id) as Session).memory;
/** A feature that hands out the memory of the process. */
const memoryFeature = (give: (budget: MemoryBudget) => void): Feature => ({
  name: 'memory of the test',
  install(host) {
    give((host as OwnHost).memory);
    return {};
  },
});
/**
 * Up to 1 MiB of content that expands nearly as far as allowed, and fits in the first credit of a stream when
 * coded.
 */
const dense = (bytes: number) =>
  randomBytes(10.5 * KIB)
    .toString('base64')
    .padEnd(bytes, ' ');
/** Content that compresses well, but not extremely. */
const rows = (bytes: number) =>
  Array.from(
    { length: Math.ceil(bytes / 40) },
    (_, i) => `row ${(i * 7919) % 10_007} of the table, ${i % 13};`,
  )
    .join('')
    .slice(0, bytes)
    .padEnd(bytes, '-');

describe('a body that expands', () => {
  it.each([
    [0, undefined],
    [1, 'decompressed_too_large'],
  ] as const)('to the bound and %i bytes more is answered with %s', async (extra, code) => {
    const { url } = await peers.serve({ onRequest: (request) => String(request.bytes.length) });
    const peer = await greet(url, { algorithms: ['BROTLI', 'NONE'], extensions: { link: '{}' } });
    // The bound grows with the coded bytes: find the first content above it, and the last one below.
    let length = 64 * KIB;
    let coded = brotliCompressSync(new Uint8Array(length));
    for (;;) {
      const next = 64 * KIB + 100 * coded.length + extra;
      coded = brotliCompressSync(new Uint8Array(next));
      if (next === length) break;
      length = next;
    }
    expect(length).toBe(64 * KIB + 100 * coded.length + extra);
    peer.send(brotliRequest(1, length, coded));
    if (code === undefined) {
      await expect.poll(() => peer.received.length).toBeGreaterThan(1);
      expect(errors(peer)).toEqual([]);
    } else {
      await expect.poll(() => errors(peer).map(codeOf)).toEqual([code]);
    }
    peer.socket.terminate();
  });

  it('is sent uncompressed by our sender, with every algorithm as the only one', async () => {
    const blanks = ' '.repeat(MIB);
    const json = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: blanks }] });
    const { url } = await peers.serve({
      onRequest: (request) => `${request.algorithm} ${request.text.length}`,
    });
    for (const [algorithm, text] of [
      ['BROTLI', blanks],
      ['M2M', json],
      ['NONE', blanks],
      ['TOKEN_NATIVE', blanks],
      ['DICTIONARY', blanks],
    ] as const) {
      const algorithms = [algorithm, 'NONE'] as const;
      const session = await peers.dial(url, { algorithms, extensions: { context: false } });
      const reply = await session.request(text, { algorithm });
      expect(reply.text).toBe(`${algorithm} ${text.length}`);
    }
  });

  it('in context may repeat a base of a megabyte, and nothing else beyond the bound', async () => {
    const { url } = await peers.serve({
      onRequest: (request) => `${request.algorithm} ${request.codedLength < 100} ${request.text.length}`,
    });
    const session = await peers.dial(url, { algorithms: ['NONE'] });
    const history = rows(MIB - 100);
    await session.request(history, { algorithm: 'CONTEXT' });
    const again = await session.request(`${history} and a question`, { algorithm: 'CONTEXT' });
    expect(again.text).toBe(`CONTEXT true ${MIB - 100 + 15}`);
    // Our encoder does not compress what receivers would refuse.
    const blanks = await session.request(' '.repeat(512 * KIB), { algorithm: 'CONTEXT' });
    expect(blanks.text).toBe(`CONTEXT false ${512 * KIB}`);
  });
});

describe('the memory of a session', () => {
  it('bounds requests whose handlers wait: the others wait coded, and are answered later', async () => {
    const waiting: (() => void)[] = [];
    const { url, server } = await peers.serve({
      limits: { ...UNLIMITED, sessionMemory: 4 * MIB },
      async onRequest(request) {
        const { length } = request.text;
        await new Promise<void>((resolve) => waiting.push(resolve));
        return String(length);
      },
    });
    const session = await peers.dial(url, { extensions: { context: false } });
    const replies = Array.from({ length: 8 }, () => session.request(dense(MIB), { algorithm: 'BROTLI' }));
    const memory = memoryOf(server, session.id);
    await expect.poll(() => memory.waiting).toBe(6);
    await pause(50);
    expect([waiting.length, memory.reserved, memory.waiting]).toEqual([2, 4 * MIB, 6]);
    for (let answered = 0; answered < 8; answered++) {
      await expect.poll(() => waiting.length).toBeGreaterThan(0);
      waiting.shift()?.();
    }
    expect((await Promise.all(replies)).map(({ text }) => text)).toEqual(Array(8).fill(String(MIB)));
    expect(memory.reserved).toBe(0);
  });

  it('is released by a request that is cancelled while it waits, and the cancel is answered', async () => {
    const { url, server } = await peers.serve({
      limits: { ...UNLIMITED, sessionMemory: 2 * MIB },
      onRequest: () => new Promise(() => {}),
    });
    const session = await peers.dial(url, { extensions: { context: false } });
    const controller = new AbortController();
    const first = session.request(dense(MIB), { algorithm: 'BROTLI', signal: controller.signal });
    const second = session.request(dense(MIB), { algorithm: 'BROTLI', signal: controller.signal });
    const memory = memoryOf(server, session.id);
    await expect.poll(() => memory.waiting).toBe(1);
    controller.abort();
    await Promise.allSettled([first, second]);
    await expect.poll(() => [memory.waiting, session.stats().openStreams <= 1]).toEqual([0, true]);
  });

  it('refuses a request in context at once, because its content is already there', async () => {
    const { url } = await peers.serve({
      limits: { ...UNLIMITED, sessionMemory: 2 * MIB },
      onRequest: (request, { signal }) =>
        new Promise((resolve) => {
          if (request.text.startsWith('row')) signal.addEventListener('abort', () => resolve(undefined));
        }),
    });
    const session = await peers.dial(url);
    const controller = new AbortController();
    const history = rows(MIB - 100);
    const held = session.request(history, { algorithm: 'CONTEXT', signal: controller.signal });
    held.catch(() => {});
    const refused = await failure(session.request(`${history}!`, { algorithm: 'CONTEXT' }));
    expect(refused).toMatchObject({ code: 'over_budget', retryable: true });
    controller.abort();
  });

  it('bounds what handlers parse and keep, by values and not by bytes', async () => {
    const { url, server } = await peers.serve({
      limits: { ...UNLIMITED, sessionMemory: 8 * MIB },
      async onRequest(request) {
        const value = request.json<unknown[]>();
        await new Promise(() => {});
        return String(value.length);
      },
    });
    const session = await peers.dial(url, { extensions: { context: false } });
    // 30 KB of JSON that take 1.3 MB as objects.
    const json = JSON.stringify(Array.from({ length: 10_000 }, (_, i) => (i % 7 === 0 ? {} : [i % 3])));
    const refused: string[] = [];
    for (let i = 0; i < 60; i++) {
      session.request(json, { algorithm: 'BROTLI' }).catch(({ code }) => refused.push(code));
    }
    const memory = memoryOf(server, session.id);
    await expect.poll(() => refused.length).toBeGreaterThan(40);
    expect(new Set(refused)).toEqual(new Set(['over_budget']));
    expect(memory.reserved).toBeLessThanOrEqual(8 * MIB);
    expect(memory.reserved).toBeGreaterThan(6 * MIB);
  });

  it('is released by a reader that takes the next message', async () => {
    const { url, server } = await peers.serve({
      limits: { ...UNLIMITED, sessionMemory: 2 * MIB },
      onSession() {},
    });
    const session = await peers.dial(url, { extensions: { context: false } });
    for (let i = 0; i < 5; i++) await session.send(`${i}${rows(MIB - 1)}`, { algorithm: 'BROTLI' });
    const far = server.sessions.get(session.id) as Session;
    const memory = memoryOf(server, session.id);
    const texts: string[] = [];
    for await (const message of far) {
      texts.push(message.text.slice(0, 1));
      expect(memory.reserved).toBeLessThanOrEqual(2 * MIB);
      if (texts.length === 5) break;
    }
    expect(texts).toEqual(['0', '1', '2', '3', '4']);
    expect(memory.reserved).toBe(0);
  });

  it('includes the objects around unread replies', async () => {
    const { url, server } = await peers.serve({
      async *onRequest() {
        for (;;) yield 'x';
      },
    });
    const peer = await greet(url, {
      extensions: { link: JSON.stringify({ stream_window: 1, message_window: 1 }) },
    });
    for (let i = 0; i < 100; i++) peer.send(Uint8Array.from([0x11, ...varint(2 * i + 1), 0]));
    const endpoint = endpointOf(server.sessions.get(peer.sessionId) as Session);
    let last = -1;
    await expect
      .poll(
        () => {
          const held = endpoint.core.heldBytes;
          const isSettled = held > 0 && held === last;
          last = held;
          return isSettled;
        },
        { interval: 100 },
      )
      .toBe(true);
    // 4 MiB for all streams, and 32 KiB for each stream beyond.
    expect(last).toBeLessThan(8 * MIB);
    expect(endpoint.core.queuedBytes).toBeLessThan(64 * KIB);
    peer.socket.terminate();
  });

  it('keeps no read buffer for a one-byte message that is not read', async () => {
    const { url, server } = await peers.serve({ limits: UNLIMITED, onSession() {} });
    const peer = await greet(url, { extensions: { link: '{}' } });
    for (let i = 0; i < 3_000; i++) peer.send(Uint8Array.of(0x10, 0, 0, 0x61));
    const far = server.sessions.get(peer.sessionId) as Session;
    await expect.poll(() => far.stats().received.messages).toBe(3_000);
    const buffers = new Set<ArrayBufferLike>();
    let read = 0;
    for await (const message of far) {
      if (read > 1_500) buffers.add(message.bytes.buffer);
      expect(read > 1_500 && message.bytes.buffer.byteLength > 16).toBe(false);
      if (++read === 3_000) break;
    }
    expect(buffers.size).toBeGreaterThan(1_000);
    peer.socket.terminate();
  });
});

describe('a WebSocket message that is never complete', () => {
  /** Sends the beginning of a frame that announces `length` bytes. */
  function begin(peer: RawPeer, length: number, sent: number): void {
    const head = Buffer.alloc(14);
    head.set([0x82, 0xff]);
    head.writeBigUInt64BE(BigInt(length), 2);
    const { _socket: socket } = peer.socket as unknown as { _socket: Socket };
    socket.write(head);
    for (let i = 0; i < sent; i += 64 * KIB) socket.write(Buffer.alloc(Math.min(64 * KIB, sent - i), 0x10));
  }

  it('is charged to its session, and released with it', async () => {
    const { url, server } = await peers.serve({ limits: UNLIMITED });
    const peer = await greet(url);
    begin(peer, 4 * MIB, 3 * MIB);
    const memory = memoryOf(server, peer.sessionId);
    await expect.poll(() => memory.reserved).toBeGreaterThanOrEqual(2 * MIB);
    expect(memory.reserved).toBeLessThanOrEqual(4 * MIB);
    peer.socket.terminate();
    await expect.poll(() => memory.reserved).toBe(0);
  });

  it('is not read any further while there is no memory', async () => {
    const { url, server } = await peers.serve({ limits: { ...UNLIMITED, sessionMemory: 2 * MIB } });
    const peer = await greet(url);
    const memory = memoryOf(server, peer.sessionId);
    const all = memory.tryReserve(2 * MIB);
    begin(peer, 4 * MIB, 3 * MIB);
    await expect.poll(() => memory.waiting).toBe(1);
    await pause(50);
    expect([memory.waiting, memory.reserved]).toEqual([1, 2 * MIB]);
    all?.release();
    await expect.poll(() => memory.reserved).toBe(2 * MIB);
    peer.socket.terminate();
  });

  it('of more than any credit allows ends the session', async () => {
    const { url } = await peers.serve({ limits: UNLIMITED });
    const peer = await greet(url);
    begin(peer, 16 * MIB, 5 * MIB);
    expect((await peer.closed).code).toBe(4413);
  });
});

describe('tensors', () => {
  const tensor = (size: number) =>
    ({ data: new Uint8Array(size), shape: [size], dtype: 'int8', payloadType: 'hidden_state' }) as const;

  it('that are assembled may have 16 MiB by default', async () => {
    const { url } = await peers.serve({ onSession: async (session) => void (await firstOf(session)) });
    const session = await peers.dial(url);
    await session.sendTensor(tensor(16 * MIB));
    expect(await failure(session.sendTensor(tensor(16 * MIB + 1)))).toMatchObject({
      code: 'transfer_too_large',
    });
  });

  it('that are not read wait, within the memory of the session', async () => {
    const { url, server } = await peers.serve({ limits: { sessionMemory: 8 * MIB }, onSession() {} });
    const session = await peers.dial(url, { extensions: { context: false } });
    const sendings = Array.from({ length: 5 }, () => session.sendTensor(tensor(3 * MIB)));
    const accepted: number[] = [];
    for (const [i, sending] of sendings.entries())
      sending.then(
        () => accepted.push(i),
        () => {},
      );
    await expect.poll(() => accepted.length).toBe(2);
    await pause(100);
    expect(accepted.sort()).toEqual([0, 1]);
    expect(memoryOf(server, session.id).reserved).toBeLessThanOrEqual(8 * MIB);
    await session.close();
  });

  it('that are compressed expand no further than other bodies', async () => {
    const { url } = await peers.serve({ onSession() {} });
    const peer = await greet(url);
    const body = encodeAvp(tensor(8 * MIB), { compression: 'max' });
    expect(body.length).toBeLessThan(2_000);
    peer.send(Uint8Array.from([0x11, 1, BodyCodec.AVP, ...body]));
    await expect.poll(() => errors(peer).map(codeOf)).toEqual(['decompressed_too_large']);
    peer.socket.terminate();
  });
});

describe('a server that reads no messages', () => {
  it('says so, and a client gets an error at once', async () => {
    const { url } = await peers.serve({ onRequest: (request) => request.text });
    const session = await peers.dial(url);
    expect(await failure(session.send('hello'))).toMatchObject({ code: 'unsupported' });
    expect(
      await failure(
        session.sendTensor({ data: new Uint8Array(4), dtype: 'int8', payloadType: 'hidden_state' }),
      ),
    ).toMatchObject({ code: 'unsupported' });
    expect((await session.request('still here')).text).toBe('still here');
  });

  it('drops what older peers send nevertheless, returns the credit, and logs it once', async () => {
    const lines: string[] = [];
    const log = (fields: Readonly<Record<string, unknown>>) => void lines.push(String(fields['event']));
    const { url, server } = await peers.serve({
      limits: UNLIMITED,
      onRequest: (request) => request.text,
      logger: { debug: log, info: log, warn: log, error: log },
    });
    const peer = await greet(url, { extensions: { link: '{}' } });
    const message = Uint8Array.from([0x10, 0, 0, ...new Uint8Array(1000)]);
    for (let i = 0; i < 5_000; i++) peer.send(message);
    peer.send(Uint8Array.of(0x11, 1, 0, 0x61));
    // The answer arrives after all of them, far beyond the window of messages.
    await expect
      .poll(() => peer.received.some((bytes) => (bytes[0] as number) === (0x10 | LinkKind.RESPONSE)))
      .toBe(true);
    expect(lines.filter((event) => event === 'message.unread')).toHaveLength(1);
    expect(server.sessions.size).toBe(1);
    peer.socket.terminate();
  });

  it('reports them to clients that understand reports', async () => {
    await using bench = createAgents();
    const { port } = await bench.serve({ onRequest: (request) => request.text });
    const extensions = { link: '{}', agents: '{}' };
    const peer = await greet(`ws://127.0.0.1:${port}/session`, {
      extensions,
      auth: { token: 'acme/old' },
      algorithms: ['NONE'],
    });
    peer.send(Uint8Array.of(0x10, 0, 0, 0x61));
    await expect
      .poll(() => peer.received.map((bytes) => Buffer.from(bytes as Uint8Array).toString()).join())
      .toContain('@server');
    peer.socket.terminate();
  });
});

describe('the memory of a process', () => {
  const waitsForever = () => new Promise<never>(() => {});
  const authenticate = ({ token = '' }: { token: string | undefined }) => ({ principal: token });
  const dial = (url: string, token: string, options: ClientOptions = {}) =>
    peers.dial(url, { token, extensions: { context: false }, ...options });

  it('is shared: one principal gets a quarter over all its sessions, and others are served', async () => {
    let budget = new MemoryBudget(0);
    const { url } = await peers.serve({
      features: [memoryFeature((own) => (budget = own))],
      limits: { ...UNLIMITED, sessionMemory: 8 * MIB },
      processMemory: 32 * MIB,
      authenticate,
      onRequest: (request) =>
        request.text.startsWith('honest') ? String(request.text.length) : waitsForever(),
    });
    for (let i = 0; i < 4; i++) {
      const session = await dial(url, 'attacker');
      for (let k = 0; k < 8; k++) session.request(dense(MIB), { algorithm: 'BROTLI' }).catch(() => {});
    }
    await expect.poll(() => budget.waiting).toBeGreaterThan(0);
    // Windows hold some more, for which nothing is reserved.
    expect(budget.used).toBeLessThanOrEqual(9 * MIB);
    // The address has its share too, and an honest client of another address is served.
    const session = budget.open(8 * MIB);
    session.assign(['principal honest', 'address another']);
    expect(session.tryReserve(2 * MIB)).toBeDefined();
    session.close();
    // Content that fits into the common share is served at this address too.
    const honest = await dial(url, 'honest');
    expect((await honest.request('honest', { timeoutMs: 30_000 })).text).toBe('6');
  });

  it('refuses a request that got no memory in time', async () => {
    const { url, server } = await peers.serve({
      limits: { ...UNLIMITED, sessionMemory: 2 * MIB },
      authenticate,
      onRequest: (request) => (request.text === '' ? '' : waitsForever()),
    });
    const session = await dial(url, 'a');
    // They are compressed concurrently, so either may be the first.
    const requests = [dense(MIB), dense(MIB)].map((text) =>
      failure(session.request(text, { algorithm: 'BROTLI' })),
    );
    const memory = memoryOf(server, session.id);
    await expect.poll(() => memory.waiting).toBe(1);
    // As the clock would do later.
    memory.handleTick(performance.now() + 60_000);
    const refused = await Promise.race(requests);
    expect(refused).toMatchObject({ code: 'over_budget', retryable: true, side: 'remote' });
  });

  it('is released by sessions without a connection, the largest first', async () => {
    let budget = new MemoryBudget(0);
    const { url, server } = await peers.serve({
      features: [memoryFeature((own) => (budget = own))],
      limits: UNLIMITED,
      authenticate,
      onRequest: waitsForever,
    });
    const sockets: (() => void)[] = [];
    for (const count of [5, 12, 1]) {
      const peer = await greet(url, {
        extensions: { link: '{}', resume: '{}' },
        auth: { token: 'attacker' },
      });
      const content = Buffer.from(dense(MIB / 2));
      const coded = brotliCompressSync(content);
      for (let i = 0; i < count; i++) peer.send(brotliRequest(2 * i + 1, content.length, coded));
      sockets.push(() => peer.socket.terminate());
    }
    await expect.poll(() => budget.used).toBeGreaterThanOrEqual(18 * MIB);
    for (const terminate of sockets) terminate();
    await expect
      .poll(() => [...server.sessions.values()].map(({ state }) => state))
      .toEqual(Array(3).fill('suspended'));
    budget.sweep(performance.now() + 10_000);
    expect(server.sessions.size).toBe(2);
    expect(budget.used).toBeLessThanOrEqual(7 * MIB);
  });
});

describe('a relay', () => {
  it('holds its senders back if it must recode for a receiver that does not read', async () => {
    await using bench = createAgents();
    const { server, port, agent } = await bench.serve({ limits: { ...UNLIMITED, sessionMemory: 4 * MIB } });
    const receiver = await greet(`ws://127.0.0.1:${port}/session`, {
      algorithms: ['NONE'],
      extensions: { link: JSON.stringify({ message_window: 1, stream_window: 1 }), agents: '{}' },
      auth: { token: 'acme/receiver' },
    });
    const sender = await agent('sender', { algorithms: ['BROTLI'], extensions: { context: false } });
    const text = rows(256 * KIB);
    let sent = 0;
    const sending = (async () => {
      for (; sent < 2_000; sent++) await sender.send(text, { to: 'receiver', algorithm: 'BROTLI' });
    })();
    sending.catch(() => {});
    const memory = memoryOf(server, sender.id);
    await expect.poll(() => memory.waiting).toBeGreaterThan(0);
    await pause(100);
    const far = endpointOf(server.sessions.get(receiver.sessionId) as Session);
    expect(far.core.queuedBytes).toBeLessThanOrEqual(4 * MIB);
    expect(memory.reserved).toBeLessThanOrEqual(4 * MIB);
    receiver.socket.terminate();
    await sender.close();
  });

  it('delivers all of it, in order, once the receiver reads', async () => {
    await using bench = createAgents();
    const { agent } = await bench.serve({ limits: { ...UNLIMITED, sessionMemory: MIB } });
    const receiver = await agent('receiver', { algorithms: ['NONE'], extensions: { context: false } });
    const sender = await agent('sender', { algorithms: ['BROTLI'], extensions: { context: false } });
    const sending = (async () => {
      for (let i = 0; i < 40; i++)
        await sender.send(`${i} ${i % 3 === 0 ? '' : rows(200 * KIB)}`, {
          to: 'receiver',
          algorithm: 'BROTLI',
        });
    })();
    const got: number[] = [];
    for await (const message of receiver) {
      got.push(Number.parseInt(message.text, 10));
      if (got.length === 40) break;
    }
    await sending;
    expect(got).toEqual(Array.from({ length: 40 }, (_, i) => i));
  });

  it.each([
    ['an unknown agent', { to: 'absent' }],
    ['the directory', { to: '@directory' }],
  ] as const)('handles a message to %s from a session that agreed on TOKEN alone', async (_name, { to }) => {
    await using bench = createAgents();
    const { server, agent } = await bench.serve();
    const neighbour = await agent('neighbour', { onRequest: () => 'alive' });
    const planner = await agent('planner');
    const options: ClientOptions = { algorithms: ['TOKEN'], extensions: { context: false } };
    const sender = await agent('sender', options);
    const report = new Promise((resolve) => sender.on('undelivered', resolve));
    if (to === 'absent') {
      await sender.send('{"a":1}', { algorithm: 'TOKEN', to });
      expect(await report).toMatchObject({ outcome: 'not_sent', code: 'unknown_agent' });
    } else {
      await failure(sender.send('{"a":1}', { algorithm: 'TOKEN', to }));
    }
    expect((await planner.request('?', { to: 'neighbour' })).text).toBe('alive');
    expect(server.sessions.get(neighbour.id)?.state).toBe('established');
  });
});

async function firstOf(session: Session): Promise<unknown> {
  for await (const message of session) return message;
  throw new RequestError('ended', 'the session has ended');
}

it('tokens never expand beyond the bound, so none are refused', async () => {
  await loadEncoding('CL100K_BASE');
  const frame = encodeTokenNative(' '.repeat(MIB), 'CL100K_BASE');
  expect(MIB / frame.length).toBeLessThan(100);
});
