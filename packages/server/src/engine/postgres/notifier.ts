import { setImmediate } from 'node:timers';
import type { Client } from 'pg';
import { ENGINE_TIMEOUT_MS } from '../engine.js';
import { within } from '../late.js';
import type { Wakes } from '../sql/wakes.js';
import { tooLate } from './errors.js';
import { cut } from './pool.js';

/** Bytes of one notification, of which Postgres takes 7,999, and wakes that may wait to be sent. */
const MAX_PAYLOAD = 7_500;
/** Characters of one wake; IDs and names are far shorter. */
const MAX_WAKE = 2_000;
const MAX_PENDING = 10_000;
/** The delay before a connection that could not be opened is tried again, in milliseconds. */
const RETRY_MS = 500;
/** How often a connection on which nothing may be said for long is asked whether it lives, in milliseconds. */
const PING_MS = 2 * ENGINE_TIMEOUT_MS;

/**
 * Sends wakes to all nodes, and hears theirs, over one connection. All nodes use one channel, as Postgres compares each notification
 * with every channel of every connection. It is not part of a transaction that wakes, because all transactions that notify
 * wait for each other's commit.
 */
export class Notifier {
  readonly #channel: string;
  readonly #open: () => Promise<Client>;
  readonly #wakes: Wakes;
  /** JSON of a topic and its hint. */
  readonly #pending = new Set<string>();
  #client: Client | undefined;
  #isOpening = false;
  #isSending = false;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #pinging: ReturnType<typeof setInterval> | undefined;
  #isClosed = false;

  constructor(schema: string, open: () => Promise<Client>, wakes: Wakes) {
    this.#channel = `parlance_${schema}`;
    this.#open = open;
    this.#wakes = wakes;
  }

  /** Whether each wake is heard now. */
  get isListening(): boolean {
    return this.#client !== undefined;
  }

  /** Opens the connection if it is not open. */
  listen(): void {
    if (this.#client !== undefined || this.#isOpening || this.#retry !== undefined || this.#isClosed) return;
    this.#isOpening = true;
    void this.#connect();
  }

  ring(topic: string, hint: string): void {
    const wake = JSON.stringify([topic, hint]);
    if (this.#pending.size >= MAX_PENDING || wake.length > MAX_WAKE) return;
    this.#pending.add(wake);
    this.listen();
    if (this.#client !== undefined) void this.#send();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    clearInterval(this.#pinging);
    const client = this.#client;
    this.#client = undefined;
    if (client === undefined) return;
    await within(client.end(), ENGINE_TIMEOUT_MS, tooLate).catch(() => cut(client));
  }

  async #connect(): Promise<void> {
    let client: Client | undefined;
    try {
      client = await this.#open();
      client.on('notification', ({ payload, processId }) => {
        if (processId !== this.#processId) this.#hear(payload ?? '');
      });
      // Wakes may be lost with the server: those who wait look again by themselves.
      await this.#ask(client, `SET synchronous_commit TO off; LISTEN "${this.#channel}"`);
      this.#isOpening = false;
      if (this.#isClosed) return void client.end().catch(() => {});
      const lost = () => this.#lose(client as Client);
      client.on('error', lost);
      client.on('end', lost);
      this.#client = client;
      this.#pinging = setInterval(() => void this.#send(true), PING_MS);
      this.#pinging.unref();
      this.#wakes.miss();
      void this.#send();
    } catch {
      if (client !== undefined) cut(client);
      this.#isOpening = false;
      this.#tryAgain();
    }
  }

  get #processId(): number | undefined {
    return (this.#client as unknown as { readonly processID?: number } | undefined)?.processID;
  }

  #lose(client: Client): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    clearInterval(this.#pinging);
    cut(client);
    this.listen();
  }

  #tryAgain(): void {
    if (this.#isClosed) return;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.listen();
    }, RETRY_MS);
    this.#retry.unref();
  }

  /** One statement at a time; what comes meanwhile goes together. Never rejects. */
  async #send(isPing = false): Promise<void> {
    const client = this.#client;
    if (client === undefined || this.#isSending) return;
    this.#isSending = true;
    let some: readonly string[] = [];
    try {
      if (isPing) await this.#ask(client, 'SELECT 1');
      // Messages of one tick of the event loop go together.
      else await new Promise((resolve) => setImmediate(resolve));
      while (this.#pending.size > 0 && this.#client === client) {
        some = this.#take();
        await this.#ask(client, 'SELECT pg_notify($1, $2)', [this.#channel, `[${some.join(',')}]`]);
        some = [];
      }
    } catch {
      for (const each of some) this.#pending.add(each);
      this.#lose(client);
    } finally {
      this.#isSending = false;
    }
    // A connection that was lost meanwhile has a successor.
    if (this.#pending.size > 0 && this.#client !== client) void this.#send();
  }

  /** As many as one notification takes. */
  #take(): readonly string[] {
    let size = 2;
    const some: string[] = [];
    for (const each of this.#pending) {
      size += Buffer.byteLength(each) + 1;
      if (some.length > 0 && size > MAX_PAYLOAD) break;
      this.#pending.delete(each);
      some.push(each);
    }
    return some;
  }

  #hear(payload: string): void {
    for (const [topic, hint] of readPayload(payload)) this.#wakes.wake(topic, hint);
  }

  async #ask(client: Client, text: string, values?: readonly string[]): Promise<void> {
    await within(client.query(text, values as string[]), ENGINE_TIMEOUT_MS, tooLate);
  }
}

/** Every user of the database may notify. */
function readPayload(payload: string): (readonly [topic: string, hint: string])[] {
  try {
    const all: unknown = JSON.parse(payload);
    if (!Array.isArray(all)) return [];
    return all.filter((each) => Array.isArray(each)).map(([topic, hint]) => [String(topic), String(hint)]);
  } catch {
    return [];
  }
}
