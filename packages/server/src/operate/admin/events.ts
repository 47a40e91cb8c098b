import type { ServerResponse } from 'node:http';
import { truncateUnits } from '@parlance/protocol/internal';
import type { EventFeed, FeedEvent } from '../../base/event-feed.js';
import type { AdminEvent } from './report.js';

/** Events that a reader gets at once. */
const KEPT = 200;
/** Readers at a time. */
export const MAX_READERS = 16;
/** Bytes that may wait for a reader that does not read. */
const MAX_WAITING = 1024 * 1024;
/** Proxies close connections that are silent for a minute. */
const KEEP_ALIVE_MS = 20_000;
const MAX_FIELDS = 16;
const MAX_TEXT = 200;

/** The session of an event; `undefined` if the server does not know it. */
export type About = (session: string, event: string) => FeedEvent['fields'] | undefined;

/** The newest lines of the log, and those to come, as server-sent events. */
export class AdminEvents {
  readonly #kept: AdminEvent[] = [];
  readonly #about: About;
  /** Names this process among those that were here before. */
  readonly #process = Date.now().toString(36);
  #count = 0;
  readonly #readers = new Set<ServerResponse>();
  readonly #stop: () => void;
  readonly #alive: NodeJS.Timeout;

  constructor(feed: EventFeed, about: About) {
    this.#about = about;
    this.#stop = feed.subscribe((line) => this.#take(line));
    this.#alive = setInterval(() => this.#write(':\n\n'), KEEP_ALIVE_MS).unref();
  }

  get isFull(): boolean {
    return this.#readers.size >= MAX_READERS;
  }

  serve(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write(`retry: 2000\n\n${this.#kept.map(lineOf).join('')}`);
    this.#readers.add(response);
    response.once('close', () => this.#readers.delete(response));
  }

  close(): void {
    this.#stop();
    clearInterval(this.#alive);
    for (const reader of this.#readers) reader.end();
  }

  #take(line: FeedEvent): void {
    if (line.level === 'debug') return;
    const { session } = line.fields;
    const known = typeof session === 'string' ? this.#about(session, line.event) : undefined;
    // A session that has just been accepted is known a moment later; lines keep their order.
    queueMicrotask(() => {
      const told = known ?? (typeof session === 'string' ? this.#about(session, line.event) : undefined);
      this.#tell({ ...line, fields: { ...told, ...line.fields } });
    });
  }

  #tell(line: FeedEvent): void {
    const event = { id: `${this.#process}-${this.#count++}`, ...eventOf(line) };
    this.#kept.push(event);
    if (this.#kept.length > KEPT) this.#kept.shift();
    this.#write(lineOf(event));
  }

  #write(text: string): void {
    for (const reader of this.#readers) {
      if (reader.writableLength > MAX_WAITING) reader.destroy();
      else reader.write(text);
    }
  }
}

const lineOf = (event: AdminEvent): string => `data: ${JSON.stringify(event)}\n\n`;

/** Plain values only, and of an error its type: its message may quote its input. */
function eventOf({ at, level, event, message, fields }: FeedEvent): Omit<AdminEvent, 'id'> {
  const plain: Record<string, string | number | boolean | null> = {};
  for (const [name, value] of Object.entries(fields).slice(0, MAX_FIELDS)) {
    if (name === 'err') plain['error'] = typeOf(value);
    else if (typeof value === 'string') plain[name] = truncateUnits(value, MAX_TEXT);
    else if (typeof value === 'number' || typeof value === 'boolean') plain[name] = value;
  }
  return { at, level, event, message: truncateUnits(message, MAX_TEXT), fields: plain };
}

function typeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { readonly code?: unknown; readonly name?: unknown };
  return truncateUnits(String(code ?? name ?? 'error'), MAX_TEXT);
}
