import { type ClientSession, connect } from '@parlance/client';
import { isProtocolError } from '@parlance/protocol';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';
import type { Wish } from './server.js';

/** Clients that read one reply after the other, over connections to any node. */

/** A reply is over soon enough for its record to stay small. */
const PARTS = 100;

class Reader {
  readonly session: ClientSession;
  delays: number[] = [];
  /** When it was connected last, and when the first part after that arrived; Unix milliseconds. */
  #connectedAt = 0;
  #heardAt: number | undefined;
  #isStopped = false;

  constructor(session: ClientSession) {
    this.session = session;
    session.on('state', (state) => {
      if (state !== 'established') return;
      this.#connectedAt = now();
      this.#heardAt = undefined;
    });
  }

  async read(paceMs: number): Promise<void> {
    this.#isStopped = false;
    while (!this.#isStopped) {
      try {
        await this.#readOnce(paceMs);
      } catch (error) {
        // Its node died before it was recorded that the handler is called again.
        if (!isProtocolError(error) || error.code !== 'interrupted') throw error;
      }
    }
  }

  async #readOnce(paceMs: number): Promise<void> {
    const wish: Wish = { parts: PARTS, paceMs };
    for await (const { text } of this.session.stream(wish)) {
      const at = now();
      this.delays.push(at - Number(text));
      if (this.#connectedAt > 0) this.#heardAt ??= at;
      if (this.#isStopped) break;
    }
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Milliseconds from `since` to the first part over another connection. */
  gapSince(since: number): number | undefined {
    if (this.#connectedAt < since || this.#heardAt === undefined) return undefined;
    return this.#heardAt - since;
  }
}

const now = () => performance.timeOrigin + performance.now();
let ports: readonly number[] = [];
let readers: Reader[] = [];
let reading: readonly Promise<void>[] = [];
const sockets = new Set<WebSocket>();

/** Goes to any node. */
class Directed extends WebSocket {
  constructor(address: string, protocols: string[]) {
    const port = ports[Math.floor(Math.random() * ports.length)] ?? 0;
    super(address.replace(/:\d+/, `:${port}`), protocols);
    sockets.add(this);
    this.once('close', () => sockets.delete(this));
  }
}

async function open(count: number): Promise<void> {
  const reconnect = { minDelayMs: 1, maxDelayMs: 50 };
  const limits = { messagesPerMinute: Infinity };
  const opened = Array.from({ length: count }, async () => {
    const session = await connect('ws://127.0.0.1:1/session', { WebSocket: Directed, reconnect, limits });
    return new Reader(session);
  });
  readers = await Promise.all(opened);
}

const commands = {
  route(next: readonly number[]): void {
    ports = next;
  },
  open,
  start(paceMs: number): void {
    reading = readers.map((reader) => reader.read(paceMs));
  },
  async stop(): Promise<void> {
    for (const reader of readers) reader.stop();
    await Promise.all(reading);
  },
  /** Delays of parts since the last call, in milliseconds. */
  delays(): readonly number[] {
    return readers.flatMap((reader) => reader.delays.splice(0));
  },
  /** Breaks all connections. Returns when. */
  cut(): number {
    const at = now();
    for (const socket of sockets) socket.terminate();
    return at;
  },
  now,
  /** Milliseconds from `since` to the next part, of these sessions or of all. */
  async gaps({ since, of }: { since: number; of?: readonly string[] }): Promise<readonly number[]> {
    const asked = readers.filter(({ session }) => of === undefined || of.includes(session.id));
    const gaps: number[] = [];
    for (const reader of asked) {
      let gap = reader.gapSince(since);
      for (; gap === undefined; gap = reader.gapSince(since))
        await new Promise((resolve) => setTimeout(resolve, 5));
      gaps.push(gap);
    }
    return gaps;
  },
  /** A chat of so many turns, each with the whole history in its request. Returns the characters of all answers. */
  async chat({ turns, words, word }: { turns: number; words: number; word: string }): Promise<number> {
    const [{ session }] = readers as [Reader];
    let history = '';
    let said = 0;
    for (let turn = 0; turn < turns; turn++) {
      const wish: Wish & { readonly history: string } = { parts: words, paceMs: 0, text: word, history };
      for await (const { text } of session.stream(wish)) {
        said += text.length;
        history += text;
      }
    }
    return said;
  },
  ids: () => readers.map(({ session }) => session.id),
  async close(): Promise<void> {
    await Promise.all(readers.map(({ session }) => session.close()));
    readers = [];
  },
};
export type LoadCommands = typeof commands;

offer(commands);
