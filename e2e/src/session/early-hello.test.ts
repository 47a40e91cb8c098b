import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect as connectTcp, type Socket } from 'node:net';
import { type ClientOptions, connect, type WebSocketConstructor } from '@parlance/client';
import { type InspectionEvent, tap } from '@parlance/client/inspect';
import { CloseCode, decodeControl, encodeControl } from '@parlance/protocol';
import type { ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { MemoryStore } from '../kit/memory-store.js';
import { createPeers, failure, HELLO, helloBytes } from '../kit/peers.js';
import { createWatchingProxy } from '../kit/watching-proxy.js';

/** HELLO in the upgrade request, with ACCEPT right behind the answer to it. */

const READ = 'm2m.v1.hello';
const MAX_SIZE = 3_072;

let peers = createPeers();
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

const offerOf = (hello: Uint8Array) => `hello.${Buffer.from(hello).toString('base64url')}`;

/** A HELLO of exactly so many bytes. */
function helloOfSize(size: number): Uint8Array {
  const padded = (length: number) =>
    helloBytes({ extensions: { ...HELLO.extensions, 'x-pad': 'x'.repeat(length) } });
  // The length of the text takes three bytes for each of these sizes.
  const hello = padded(size - padded(300).length + 300);
  expect(hello).toHaveLength(size);
  return hello;
}

/** The WebSocket class of `ws`, with what it has offered, been answered and sent. */
function watched() {
  const sockets: { readonly offers: readonly string[]; protocol: string; sent: number; cut(): void }[] = [];
  class Watched extends WebSocket {
    readonly #seen;
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      this.#seen = { offers: protocols, protocol: '', sent: 0, cut: () => this.terminate() };
      sockets.push(this.#seen);
      this.once('open', () => {
        this.#seen.protocol = this.protocol;
      });
    }
    override send(data: Parameters<WebSocket['send']>[0]): void {
      this.#seen.sent++;
      super.send(data);
    }
  }
  return { sockets, WebSocket: Watched as unknown as WebSocketConstructor };
}

for (const wire of ['net', 'ws'] as const) {
  const serve = (options: ServerOptions = {}) => peers.serve({ wire, ...options });

  describe(`over ${wire}, a client`, () => {
    it('says HELLO in its request, and no second time', async () => {
      const { url, server } = await serve({ onRequest: ({ text }) => text });
      const { sockets, WebSocket } = watched();
      const session = await peers.dial(url, { WebSocket });
      expect(sockets).toMatchObject([{ protocol: READ, sent: 0 }]);
      expect(sockets[0]?.offers).toEqual(['m2m.v1', READ, expect.stringMatching(/^hello\.[\w-]+$/)]);
      expect((await session.request('hi')).text).toBe('hi');
      await session.flush();
      const [served] = server.sessions.values();
      expect(served?.stats().received.wireBytes).toBe(session.stats().sent.wireBytes);
      expect(served?.stats().sent.wireBytes).toBe(session.stats().received.wireBytes);
    });

    it('resumes its session so too, in one attempt', async () => {
      const lines: Record<string, unknown>[] = [];
      const take = (fields: object) => void lines.push(fields as Record<string, unknown>);
      const logger = { debug: take, info: take, warn: take, error: take };
      const { url } = await serve({ logger, onRequest: ({ text }) => text });
      const { sockets, WebSocket } = watched();
      const session = await peers.dial(url, { WebSocket, reconnect: { minDelayMs: 1 } });
      const { id } = session;
      for (let attempt = 1; attempt <= 3; attempt++) {
        sockets.at(-1)?.cut();
        expect((await session.request('again')).text).toBe('again');
        expect(sockets).toHaveLength(attempt + 1);
        expect(sockets.at(-1)?.protocol).toBe(READ);
      }
      expect(session.id).toBe(id);
      const resumed = lines.filter(({ event }) => event === 'session.resumed');
      expect(resumed).toMatchObject([
        { session: id, attempt: 1 },
        { session: id, attempt: 2 },
        { session: id, attempt: 3 },
      ]);
    });

    it.each<[string, boolean, ClientOptions]>([
      ['a token that is renewed', true, { token: () => 'ann' }],
      ['a token that is not renewed', false, { token: 'ann' }],
      ['a token that is not renewed, if it is asked to', true, { token: 'ann', earlyHello: true }],
      ['a token that is renewed, if it is asked not to', false, { token: () => 'ann', earlyHello: false }],
      ['envelopes in JSON', false, { token: () => 'ann', subprotocol: 'm2m.v1.json' }],
      ['more than 3 KiB', false, { token: () => 'ann'.padEnd(4_000, 'x') }],
    ])('with %s: %s', async (_what, isOffered, options) => {
      const { url } = await serve({
        authenticate: ({ token }) => ({ principal: String(token?.slice(0, 3)) }),
      });
      const { sockets, WebSocket } = watched();
      const session = await peers.dial(url, { ...options, WebSocket });
      expect(session.principal ?? 'ann').toBe('ann');
      const plain = options.subprotocol ?? 'm2m.v1';
      expect(sockets[0]?.protocol).toBe(isOffered ? READ : plain);
      expect(sockets[0]?.offers).toHaveLength(isOffered ? 3 : 1);
    });

    it('says HELLO in a frame to a server that does not read it in requests', async () => {
      const { url } = await serve({ earlyHello: false, onRequest: ({ text }) => text });
      const { sockets, WebSocket } = watched();
      const session = await peers.dial(url, { WebSocket, reconnect: { minDelayMs: 1 } });
      expect(sockets).toMatchObject([{ protocol: 'm2m.v1', sent: 1 }]);
      sockets[0]?.cut();
      expect((await session.request('hi')).text).toBe('hi');
    });

    it('is refused with the reason, as behind a frame', async () => {
      const { url } = await serve({ authenticate: () => null });
      const refused = await failure(connect(url, { WebSocket, token: () => 'ann' }));
      expect(refused).toMatchObject({ code: 'rejected', closeCode: CloseCode.UNAUTHENTICATED });
    });

    it('leaves no session behind if it stops while its HELLO is under way', async () => {
      const { server, port } = await serve();
      let answer = () => {};
      const isAsked = new Promise<void>((resolve) => {
        answer = resolve;
      });
      const proxy = peers.use(
        await createWatchingProxy(port, async ({ from, text }) => {
          if (from === 'server' && text.startsWith('HTTP/1.1 101')) await isAsked;
          return 'pass' as const;
        }),
      );
      const stop = new AbortController();
      const connecting = failure(
        connect(`ws://127.0.0.1:${proxy.port}/session`, { WebSocket, signal: stop.signal }),
      );
      await expect.poll(() => server.sessions.size).toBe(1);
      stop.abort();
      await connecting;
      answer();
      await expect.poll(() => server.sessions.size).toBe(0);
    });

    it('leaves its session to the next page if it is detached while its HELLO is under way', async () => {
      const { port, server } = await serve();
      let [holds, answer] = [false, () => {}];
      const isAsked = new Promise<void>((resolve) => {
        answer = resolve;
      });
      const proxy = peers.use(
        await createWatchingProxy(port, async ({ from, text }) => {
          if (holds && from === 'server' && text.startsWith('HTTP/1.1 101')) await isAsked;
          return 'pass' as const;
        }),
      );
      const { sockets, WebSocket } = watched();
      const options = { WebSocket, store: new MemoryStore(), reconnect: { minDelayMs: 1 } };
      const url = `ws://127.0.0.1:${proxy.port}/session`;
      const session = await connect(url, options);
      const { id } = session;
      const [served] = server.sessions.values();
      holds = true;
      sockets[0]?.cut();
      await expect.poll(() => sockets.length).toBe(2);
      await expect.poll(() => [session.state, served?.state]).toEqual(['suspended', 'established']);
      await session.detach();
      answer();
      await expect.poll(() => served?.state).toBe('suspended');
      const next = peers.use(await connect(url, options));
      expect([next.id, next.isRebuilt]).toEqual([id, true]);
    });

    it('shows HELLO to what inspects it', async () => {
      const { url } = await serve();
      const events: InspectionEvent[] = [];
      const Tapped = tap(WebSocket as unknown as WebSocketConstructor, (event) => events.push(event));
      await peers.dial(url, { WebSocket: Tapped });
      const seen = events.map((event) =>
        event.event === 'frame' ? `${event.direction} ${event.label}` : event.event,
      );
      expect(seen.slice(0, 4)).toEqual(['connection', 'connection', 'sent HELLO', 'received ACCEPT']);
    });
  });

  describe(`over ${wire}, a server`, () => {
    /** The answers of a server to a request with these subprotocols, and to frames right behind it. */
    async function ask(
      port: number,
      protocols: string,
      headers = '',
    ): Promise<{ socket: Socket; selected: string; status: number; frames(): Buffer }> {
      const socket = connectTcp(port, '127.0.0.1');
      socket.on('error', () => {});
      peers.use({ [Symbol.asyncDispose]: async () => void socket.destroy() });
      const chunks: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      socket.write(
        `GET /session HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${headers}` +
          `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ${protocols}\r\n\r\n`,
        'latin1',
      );
      const headOf = () => {
        const bytes = Buffer.concat(chunks);
        const end = bytes.indexOf('\r\n\r\n');
        return end < 0
          ? undefined
          : { text: bytes.toString('latin1', 0, end), rest: bytes.subarray(end + 4) };
      };
      await expect.poll(() => headOf() !== undefined || socket.destroyed).toBe(true);
      const text = headOf()?.text ?? '';
      return {
        socket,
        status: Number(text.split(' ')[1]),
        selected: /^Sec-WebSocket-Protocol: (.*)$/im.exec(text)?.[1] ?? '',
        frames: () => headOf()?.rest ?? Buffer.alloc(0),
      };
    }

    /** A client that has said HELLO in its request. */
    async function greet(url: string, hello: Uint8Array, options: WebSocket.ClientOptions = {}) {
      const socket = new WebSocket(url, ['m2m.v1', READ, offerOf(hello)], options);
      socket.on('error', () => {});
      peers.use({ [Symbol.asyncDispose]: async () => socket.terminate() });
      const frames: Buffer[] = [];
      socket.on('message', (frame: Buffer) => frames.push(frame));
      const closed = once(socket, 'close').then(([code]) => code as number);
      await once(socket, 'open');
      return { socket, frames, closed };
    }
    const isAccepted = (frames: readonly Buffer[]) =>
      expect.poll(() => frames.map(typeOf)).toEqual(['ACCEPT']);
    const typeOf = (frame: Buffer) => decodeControl(frame).type;

    it('answers with ACCEPT right behind 101', async () => {
      const { port } = await serve();
      const answer = await ask(port, `m2m.v1, ${READ}, ${offerOf(helloBytes())}`);
      expect(answer).toMatchObject({ status: 101, selected: READ });
      await expect.poll(() => answer.frames().includes('ACCEPT')).toBe(true);
    });

    it.each([
      ['3,072 bytes', READ, offerOf(helloOfSize(MAX_SIZE))],
      ['3,073 bytes', 'm2m.v1', offerOf(helloOfSize(MAX_SIZE + 1))],
      ['no bytes', 'm2m.v1', 'hello.'],
      ['padding', 'm2m.v1', 'hello.AA=='],
      ['the other alphabet', 'm2m.v1', 'hello.+/8A'],
      ['bits behind the last byte', 'm2m.v1', 'hello.AB'],
      ['a character beyond ASCII', 'm2m.v1', 'hello.AA\xe9A'],
      ['two of them', 'm2m.v1', `${offerOf(helloBytes())}, ${offerOf(helloBytes({ agentId: 'a' }))}`],
      ['one of them twice', 'm2m.v1', `${offerOf(helloBytes())}, ${offerOf(helloBytes())}`],
    ])('that is offered HELLO with %s selects %s', async (_what, selected, offer) => {
      const { port } = await serve();
      const answer = await ask(port, `m2m.v1, ${READ}, ${offer}`);
      expect(answer).toMatchObject({ status: 101, selected });
      if (selected === READ) return await expect.poll(() => answer.frames().includes('ACCEPT')).toBe(true);
      // HELLO follows as a frame.
      answer.socket.write(masked(helloBytes()));
      await expect.poll(() => answer.frames().includes('ACCEPT')).toBe(true);
    });

    it.each([
      ['without the name that says so', `m2m.v1, ${offerOf(helloBytes())}`, 101, 'm2m.v1'],
      [
        'behind the subprotocol in JSON',
        `m2m.v1.json, m2m.v1, ${READ}, ${offerOf(helloBytes())}`,
        101,
        'm2m.v1.json',
      ],
      ['without a subprotocol', `${READ}, ${offerOf(helloBytes())}`, 400, ''],
      ['alone', offerOf(helloBytes()), 400, ''],
    ])('does not read HELLO %s', async (_what, protocols, status, selected) => {
      const { port } = await serve();
      expect(await ask(port, protocols)).toMatchObject({ status, selected });
    });

    it('never selects the offer itself, and reads none with `earlyHello: false`', async () => {
      const { port } = await serve({ earlyHello: false });
      const offer = offerOf(helloBytes());
      for (const list of [`m2m.v1, ${READ}, ${offer}`, `${offer}, ${READ}, m2m.v1`])
        expect(await ask(port, list)).toMatchObject({ status: 101, selected: 'm2m.v1' });
    });

    it.each([
      [
        'a message that is not HELLO',
        encodeControl({ type: 'PING', sessionId: null, timestamp: 1, payload: {} }),
      ],
      ['a link frame', Uint8Array.of(0x10, 0, 0, 1)],
      ['a byte of no frame', Uint8Array.of(0x77)],
      ['a map that is cut off', helloBytes().subarray(0, 30)],
    ])('ends a session that begins with %s, as it does behind a frame', async (_what, bytes) => {
      const { url } = await serve();
      expect(await (await greet(url, bytes)).closed).toBe(CloseCode.BAD_FRAME);
    });

    it('ends a session whose HELLO comes a second time, in a frame', async () => {
      const { url } = await serve();
      const { socket, frames, closed } = await greet(url, helloBytes());
      await isAccepted(frames);
      socket.send(helloBytes());
      expect(await closed).toBe(CloseCode.BAD_FRAME);
    });

    it('ends a session whose HELLO comes a second time before the first one is answered', async () => {
      const { url } = await serve({ authenticate: () => new Promise(() => {}) });
      const { socket, closed } = await greet(url, helloBytes());
      socket.send(helloBytes());
      expect(await closed).toBe(CloseCode.BAD_FRAME);
    });

    it('applies its limit of a handshake to HELLO in a request', async () => {
      const maxHandshakeSize = 2_000;
      const { url } = await serve({ limits: { maxHandshakeSize } });
      const fits = await greet(url, helloOfSize(maxHandshakeSize));
      await isAccepted(fits.frames);
      expect(await (await greet(url, helloOfSize(maxHandshakeSize + 1))).closed).toBe(CloseCode.TOO_LARGE);
    });

    it('counts HELLO in a request among the bytes before ACCEPT', async () => {
      const maxHandshakeSize = 2_000;
      const hello = helloOfSize(1_500);
      let admit = () => {};
      const { port, url } = await serve({
        limits: { maxHandshakeSize },
        authenticate: () =>
          new Promise((resolve) => {
            admit = () => resolve({ principal: 'ann' });
          }),
      });
      // Part of a message, so that nothing but its bytes counts. The guard leaves 4 KiB for headers of frames.
      const part = Buffer.alloc(maxHandshakeSize + 4_096 - hello.length + 1);
      masked(new Uint8Array(60_000)).copy(part);
      const list = `m2m.v1, ${READ}, ${offerOf(hello)}`;
      const fits = await ask(port, list);
      fits.socket.write(part.subarray(0, -1));
      await new Promise<void>((resolve) => {
        const probe = new WebSocket(url, ['m2m.v1']);
        probe.once('open', () => {
          probe.terminate();
          resolve();
        });
      });
      admit();
      await expect.poll(() => fits.frames().includes('ACCEPT')).toBe(true);
      const exceeds = await ask(port, list);
      exceeds.socket.write(part);
      await expect.poll(() => exceeds.frames().includes('message_too_large')).toBe(true);
      expect(exceeds.frames().includes('session_id')).toBe(false);
    });

    it('gives the application no header with HELLO in it', async () => {
      const seen: string[] = [];
      const { url } = await serve({
        authenticate({ headers, token }) {
          seen.push(JSON.stringify(headers), String(token));
          return { principal: 'ann' };
        },
      });
      const { frames } = await greet(url, helloBytes({ auth: { token: 'secret' } }));
      await isAccepted(frames);
      expect(seen[1]).toBe('secret');
      expect(seen[0]).toContain('"sec-websocket-protocol":"m2m.v1, m2m.v1.hello"');
    });

    it('writes none of HELLO to its log', async () => {
      const lines: string[] = [];
      const take = (fields: object, message?: string) => void lines.push(JSON.stringify([fields, message]));
      const { url } = await serve({
        logger: { debug: take, info: take, warn: take, error: take },
        authenticate: () => null,
      });
      const hello = helloBytes({ auth: { token: 'a-secret-token' } });
      expect(await (await greet(url, hello)).closed).toBe(CloseCode.UNAUTHENTICATED);
      expect(lines.join('\n')).toContain('session.refused');
      expect(lines.join('\n')).not.toMatch(/a-secret-token|hello\./);
      expect(lines.join('\n')).not.toContain(offerOf(hello).slice(-40));
    });

    it('refuses a page of another origin with HELLO in its request too', async () => {
      let calls = 0;
      const { url } = await serve({
        authenticate() {
          calls++;
          return { principal: 'ann' };
        },
      });
      const { closed, frames } = await greet(url, helloBytes(), {
        headers: { origin: 'https://evil.example' },
      });
      expect(await closed).toBe(CloseCode.FORBIDDEN);
      expect([frames.map(typeOf), calls]).toEqual([['REJECT'], 0]);
    });
  });
}

describe('a server that does not know HELLO in requests', () => {
  /** Takes the first subprotocol, as the library does by default. */
  it('gets it as a frame', async () => {
    const old = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    await once(old, 'listening');
    peers.use({ [Symbol.asyncDispose]: async () => void old.close() });
    const first = once(old, 'connection').then(async ([socket]) => {
      const [frame] = await once(socket as WebSocket, 'message');
      (socket as WebSocket).terminate();
      return [(socket as WebSocket).protocol, decodeControl(frame as Buffer).type];
    });
    const url = `ws://127.0.0.1:${(old.address() as AddressInfo).port}/session`;
    await failure(connect(url, { WebSocket }));
    expect(await first).toEqual(['m2m.v1', 'HELLO']);
  });

  it.each([400, 431])('or refuses such a request with HTTP %i, is asked without', async (status) => {
    const { server } = await peers.serve();
    const back = createHttpServer();
    server.attach(back);
    const offered: boolean[] = [];
    const front = createHttpServer().on(
      'upgrade',
      (request: IncomingMessage, socket: Socket, head: Buffer) => {
        const isLong = request.headers['sec-websocket-protocol']?.includes('hello.') === true;
        offered.push(isLong);
        if (!isLong) return back.emit('upgrade', request, socket, head);
        return socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
      },
    );
    front.listen(0, '127.0.0.1');
    await once(front, 'listening');
    peers.use({ [Symbol.asyncDispose]: async () => void front.close() });
    const session = await peers.dial(`ws://127.0.0.1:${(front.address() as AddressInfo).port}/session`);
    expect(session.state).toBe('established');
    expect(offered).toEqual([true, false]);
  });
});

describe('a WebSocket class that does not tell what the server has selected', () => {
  it('is offered nothing but the subprotocol', async () => {
    const { url } = await peers.serve({ onRequest: ({ text }) => text });
    const offered: (readonly string[])[] = [];
    // No property of its prototype is that of the socket within.
    class Bare {
      readonly #socket: WebSocket;
      constructor(address: string, protocols: string[]) {
        offered.push(protocols);
        this.#socket = new WebSocket(address, protocols);
      }
      get binaryType(): string {
        return this.#socket.binaryType;
      }
      set binaryType(type: string) {
        this.#socket.binaryType = type as 'arraybuffer';
      }
      send(data: string | Uint8Array): void {
        this.#socket.send(data);
      }
      close(code?: number, reason?: string): void {
        this.#socket.close(code, reason);
      }
      addEventListener(type: string, listener: (event: object) => void): void {
        this.#socket.addEventListener(type as 'open', listener);
      }
    }
    const session = await peers.dial(url, { WebSocket: Bare as unknown as WebSocketConstructor });
    expect((await session.request('hi')).text).toBe('hi');
    expect(offered).toEqual([['m2m.v1']]);
  });
});

/** A binary frame of a client. Its key is zero. */
function masked(payload: Uint8Array): Buffer {
  const head = Buffer.alloc(payload.length < 126 ? 6 : 8);
  head[0] = 0x82;
  if (payload.length < 126) head[1] = 0x80 | payload.length;
  else {
    head[1] = 0x80 | 126;
    head.writeUInt16BE(payload.length, 2);
  }
  return Buffer.concat([head, payload]);
}
