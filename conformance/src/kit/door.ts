import { createServer, type Server as HttpServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import WebSocket, { WebSocketServer } from 'ws';
import { Deviation } from './deviation.js';
import { HttpListener } from './http-listener.js';
import { Changes } from './waiting.js';
import { Wire } from './wire.js';

/** How connections with the peer come about: the kit dials a server, or waits for a client. */
export interface Door {
  /** Which end is under test. */
  readonly peer: 'server' | 'client';
  readonly timeoutMs: number;
  /** The next connection. @param upgrade what the kit offers as a client. */
  open(upgrade?: Upgrade): Promise<Wire>;
  close(): Promise<void>;
}

export interface Upgrade {
  /** @default m2m.v1 */
  readonly subprotocols?: readonly string[] | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Offers permessage-deflate, as browsers do. @default false */
  readonly deflate?: boolean;
}

export const BINARY = 'm2m.v1';
/** HELLO in the upgrade request: what a server selects that has read it, and how the client's offer of it begins. */
export const READ = 'm2m.v1.hello';
export const OFFER = 'hello.';
export const JSON_ENVELOPES = 'm2m.v1.json';

export class Dialer implements Door {
  readonly peer = 'server';
  readonly #wires = new Set<Wire>();
  readonly url: string;
  readonly timeoutMs: number;

  constructor(url: string, timeoutMs: number) {
    this.url = url;
    this.timeoutMs = timeoutMs;
  }

  async open({ subprotocols = [BINARY], headers = {}, deflate = false }: Upgrade = {}): Promise<Wire> {
    const socket = new WebSocket(this.url, [...subprotocols], {
      headers,
      perMessageDeflate: deflate,
      handshakeTimeout: this.timeoutMs,
    });
    const wire = new Wire(socket, this.timeoutMs);
    this.#wires.add(wire);
    socket.once('close', () => this.#wires.delete(wire));
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', (error) =>
        reject(new Deviation(`the connection to ${this.url} failed: ${error.message}`)),
      );
    });
    return wire;
  }

  /** The answer in HTTP to an upgrade that the server refuses. @throws {Deviation} if it accepts it. */
  async refusal({
    subprotocols = [BINARY],
    headers = {},
  }: Upgrade): Promise<{ status: number; body: string }> {
    const socket = new WebSocket(this.url, [...subprotocols], { headers, handshakeTimeout: this.timeoutMs });
    socket.on('error', () => {});
    return await new Promise((resolve, reject) => {
      socket.once('open', () => {
        socket.terminate();
        reject(
          new Deviation(`the server accepts an upgrade with ${JSON.stringify({ subprotocols, headers })}`),
        );
      });
      socket.once('unexpected-response', (_request, response: IncomingMessage) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (text: string) => {
          body += text;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
      });
      setTimeout(() => reject(new Deviation('the upgrade was not answered')), this.timeoutMs).unref();
    });
  }

  async close(): Promise<void> {
    for (const wire of this.#wires) wire.cut();
  }
}

export class Listener implements Door {
  readonly peer = 'client';
  readonly timeoutMs: number;
  readonly #http: HttpServer;
  readonly #server: WebSocketServer;
  readonly #requests: HttpListener;
  readonly #changes: Changes;
  #waiting: Wire[] = [];
  /** HELLO is read from upgrade requests that offer it. */
  readsRequests = false;
  /** Upgrade requests that are answered with the next {@link open}; `undefined` if each is answered at once. */
  #held: (() => void)[] | undefined;

  constructor(http: HttpServer, timeoutMs: number) {
    this.#http = http;
    const server = new WebSocketServer({ server: http, perMessageDeflate: false });
    this.#server = server;
    this.timeoutMs = timeoutMs;
    this.#changes = new Changes(timeoutMs);
    this.#requests = new HttpListener(timeoutMs, (wire) => this.#add(wire));
    http.on('request', (request, response) => this.#requests.handle(request, response));
    server.options.handleProtocols = (offered) => {
      if (!offered.has(BINARY)) return false;
      return this.readsRequests && offered.has(READ) && offerIn([...offered]) !== undefined ? READ : BINARY;
    };
    server.options.verifyClient = (_info, answer) => {
      if (this.#held === undefined) answer(true);
      else this.#held.push(() => answer(true));
    };
    server.on('connection', (socket, { headers }) => {
      const wire = new Wire(socket, timeoutMs);
      if (socket.protocol === READ) {
        const names = headers['sec-websocket-protocol']?.split(',').map((name) => name.trim());
        wire.take(new Uint8Array(Buffer.from(offerIn(names ?? []) ?? '', 'base64url')));
      }
      this.#add(wire);
    });
  }

  #add(wire: Wire): void {
    this.#waiting.push(wire);
    this.#changes.notify();
  }

  /** Listens on a port of this machine; 0 takes any. */
  static async listen(port: number, timeoutMs: number): Promise<Listener> {
    const http = createServer();
    await new Promise<void>((resolve, reject) => {
      http.once('error', reject);
      http.listen(port, '127.0.0.1', resolve);
    });
    return new Listener(http, timeoutMs);
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#http.address() as AddressInfo).port}/session`;
  }

  /** Leaves upgrade requests without an answer until {@link open}: a client may leave its connection as soon as another one is open. */
  hold(): void {
    this.#held ??= [];
  }

  /** A client may wait for some time before it connects again. */
  async open(): Promise<Wire> {
    this.#release();
    return await this.#changes.until(
      () => {
        const wire = this.#waiting.shift();
        return wire === undefined || wire.closed !== undefined ? undefined : wire;
      },
      'a connection of the client',
      this.timeoutMs * 2,
    );
  }

  #release(): void {
    const held = this.#held;
    this.#held = undefined;
    for (const answer of held ?? []) answer();
  }

  async close(): Promise<void> {
    this.#release();
    for (const socket of this.#server.clients) socket.terminate();
    this.#requests.cut();
    this.#server.close();
    await new Promise((resolve) => {
      this.#http.close(resolve);
      this.#http.closeAllConnections();
    });
  }
}

/** The HELLO among the subprotocols that a client offers, in base64url. */
const offerIn = (names: readonly string[]): string | undefined =>
  names.find((name) => name.startsWith(OFFER))?.slice(OFFER.length);
