import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** An HTTP server on loopback that does what a case of the table says, and knows what its reader has seen. */

/** How long a piece may be held back before the case says so. It only ends cases that fail. */
const PATIENCE_MS = 8_000;

/** The view of the present case's reader. */
export class Sight {
  /** Pieces that the reader had not seen when the upstream wanted to continue. */
  readonly heldBack: string[] = [];
  #text = '';
  #isOver = false;
  #changed = Promise.resolve();
  #onChange = (): void => {};

  constructor() {
    this.#wait();
  }

  #wait(): void {
    this.#changed = new Promise((resolve) => {
      this.#onChange = resolve;
    });
  }

  /** The reader has seen the head, as `head`, or more of the body. */
  report(text: string): void {
    this.#text += text;
    this.#onChange();
    this.#wait();
  }

  /** The reader is done, so the case does not wait for it. */
  end(): void {
    this.#isOver = true;
    this.report('');
  }

  async has(needle: string): Promise<void> {
    const late = Symbol();
    const waiting = new AbortController();
    const patience = pause(PATIENCE_MS, late, { signal: waiting.signal }).catch(() => late);
    while (!this.#text.includes(needle) && !this.#isOver) {
      if ((await Promise.race([this.#changed, patience])) !== late) continue;
      this.heldBack.push(needle);
      break;
    }
    waiting.abort();
  }
}

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly socket: Socket;
  /** The whole body of the request. */
  readonly body: () => Promise<Buffer>;
  /** Resolves when the reader has seen this text, or `head` for the head. */
  readonly seen: (needle: string) => Promise<void>;
  /** How many requests came before in this case. */
  readonly before: number;
}

export type Answer = (exchange: Exchange) => unknown;

export interface Upstream extends AsyncDisposable {
  readonly origin: string;
  /** Requests of the present case. */
  readonly asked: number;
  begin(answer: Answer, sight: Sight): void;
}

export async function startUpstream(): Promise<Upstream> {
  let answer: Answer = () => {};
  let sight = new Sight();
  let asked = 0;
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 30_000 }, async (request, response) => {
    const before = asked++;
    const { socket } = request;
    const seen = sight.has.bind(sight);
    const exchange = { request, response, socket, before, seen, body: () => read(request) };
    try {
      await answer(exchange);
    } catch (error) {
      // Seen as a difference from what the case expects.
      if (!response.headersSent) response.writeHead(500).end(`the case has failed: ${error}`);
      socket.destroy();
    }
  });
  server.on('connection', (socket) => socket.on('error', () => {}));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get asked() {
      return asked;
    },
    begin(next, nextSight) {
      answer = next;
      sight = nextSight;
      asked = 0;
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The next tick of the event loop, so that what is written next becomes a segment of its own. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
