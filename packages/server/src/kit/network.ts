import { createServer, type Server as HttpServer } from 'node:http';
import { Duplex } from 'node:stream';
import type { WebSocketConstructor } from '@parlance/client';
import WebSocket from 'ws';

/** Connections in memory, between the WebSocket of a client and an HTTP server that listens to no port. */
export class MemoryNetwork {
  readonly http: HttpServer = createServer((_request, response) => response.writeHead(404).end());
  readonly #links = new Set<Link>();
  #isFrozen = false;
  #isDown = false;
  /** Counts every chunk, so that an idle network can be told from a busy one. */
  activity = 0;

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /** The WebSocket class of clients of this network. */
  get WebSocket(): WebSocketConstructor {
    const connect = () => this.#connect();
    return class MemoryWebSocket extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address, protocols, { createConnection: connect as never, perMessageDeflate: false });
      }
    };
  }

  /** Breaks every connection, as a lost network does: bytes in flight are gone. */
  cut(): void {
    for (const link of this.#links) link.cut();
  }

  /** New connections fail, and present ones break. */
  down(): void {
    this.#isDown = true;
    this.cut();
  }

  /** New connections succeed again. */
  up(): void {
    this.#isDown = false;
  }

  /** Nothing arrives any more, and no end notices. */
  freeze(): void {
    this.#isFrozen = true;
  }

  /** Everything arrives that was sent meanwhile. */
  thaw(): void {
    this.#isFrozen = false;
    for (const link of this.#links) link.flush();
  }

  close(): void {
    this.#isFrozen = false;
    this.cut();
    this.http.close();
  }

  #connect(): Duplex {
    const link = new Link(this, () => this.#links.delete(link));
    this.#links.add(link);
    setImmediate(() => {
      if (this.#isDown) return link.cut();
      link.client.emit('connect');
      this.http.emit('connection', link.server);
    });
    return link.client;
  }
}

class Link {
  readonly client: End;
  readonly server: End;

  constructor(network: MemoryNetwork, onClosed: () => void) {
    this.client = new End(network);
    this.server = new End(network);
    this.client.peer = this.server;
    this.server.peer = this.client;
    this.client.once('close', onClosed);
  }

  cut(): void {
    const error = Object.assign(new Error('the connection was cut'), { code: 'ECONNRESET' });
    this.client.destroy(error);
    this.server.destroy(error);
  }

  flush(): void {
    this.client.flush();
    this.server.flush();
  }
}

/** One end of a connection. It has of a socket what `node:http`, `ws` and the server use. */
class End extends Duplex {
  readonly remoteAddress = '127.0.0.1';
  readonly localAddress = '127.0.0.1';
  readonly remoteFamily = 'IPv4';
  peer: End | undefined;
  readonly #network: MemoryNetwork;
  /** Sent while the network was frozen, or while the other end read slowly. */
  readonly #waiting: (() => void)[] = [];
  #isFull = false;

  constructor(network: MemoryNetwork) {
    super({ allowHalfOpen: true });
    this.#network = network;
    // A cut is an error of both ends; their users have listeners of their own.
    this.on('error', () => {});
  }

  setTimeout(): this {
    return this;
  }
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }

  flush(): void {
    while (!this.#network.isFrozen && !this.#isFull) {
      const deliver = this.#waiting.shift();
      if (deliver === undefined) return;
      deliver();
    }
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    // The writer may use its memory again.
    const copy = Buffer.from(chunk);
    this.#send(() => {
      this.#network.activity++;
      this.#isFull = this.peer?.receive(copy) === false;
      setImmediate(done);
    });
  }

  override _final(done: () => void): void {
    this.#send(() => {
      this.#network.activity++;
      this.peer?.push(null);
      done();
    });
  }

  #send(deliver: () => void): void {
    this.#waiting.push(deliver);
    this.flush();
  }

  /** @returns whether there is room for more. */
  receive(chunk: Buffer): boolean {
    return this.push(chunk);
  }

  override _read(): void {
    const { peer } = this;
    if (peer === undefined || !peer.#isFull) return;
    peer.#isFull = false;
    setImmediate(() => peer.flush());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#network.activity++;
    this.#waiting.length = 0;
    const { peer } = this;
    // Behind what was sent before.
    setImmediate(() => peer?.destroy());
    done(error);
  }
}
