import { ProtocolError } from '../../base/errors.js';
import { assertOptions } from '../../base/options.js';
import { utf8Length } from '../../base/text.js';
import type { Clock } from '../../platform/clock.js';
import type { Part } from '../messages/part.js';

/**
 * Parts of a reply that wait for each other: fewer and larger frames for some milliseconds of delay.
 * Token IDs and texts are joined, each with their own kind only; everything else goes out by itself.
 */
export interface BatchOptions {
  /** How long the first part of a batch waits for others, in milliseconds, 0 to 10,000. @default 10 */
  readonly ms?: number | undefined;
  /** A batch goes out when it has so many bytes of text, or of IDs as they travel. @default 4096 */
  readonly bytes?: number | undefined;
}

export interface ResolvedBatchOptions {
  readonly ms: number;
  readonly bytes: number;
}

const DEFAULTS: ResolvedBatchOptions = { ms: 10, bytes: 4096 };
const MAX_MS = 10_000;

/** @throws {ProtocolError} `invalid_option`. */
export function resolveBatchOptions(options: BatchOptions | undefined): ResolvedBatchOptions | undefined {
  if (options === undefined) return undefined;
  assertOptions(options, { ms: 'number', bytes: 'number' }, 'batch');
  const { ms = DEFAULTS.ms, bytes = DEFAULTS.bytes } = options;
  if (!(ms >= 0 && ms <= MAX_MS)) {
    throw new ProtocolError('invalid_option', `batch.ms is 0 to ${MAX_MS}, not ${String(ms)}`);
  }
  if (!(Number.isSafeInteger(bytes) && bytes > 0)) {
    throw new ProtocolError('invalid_option', `batch.bytes is a positive whole number, not ${String(bytes)}`);
  }
  return { ms, bytes };
}

type Pending =
  | { readonly kind: 'tokens'; readonly ids: number[]; bytes: number }
  | { readonly kind: 'text'; text: string; bytes: number };

/** Joins the parts of one reply. */
export class PartBatch {
  readonly #clock: Clock;
  readonly #send: (part: Part) => Promise<void>;
  #pending: Pending | undefined;
  #cancelTimer: (() => void) | undefined;
  /** Settles when everything that was handed over is sent; rejects with the first failure. */
  #sent: Promise<void> = Promise.resolve();

  /** @param send is called with one part after the other, the next when the one before has resolved. */
  constructor(clock: Clock, send: (part: Part) => Promise<void>) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Takes the next part. Resolves when more can be taken. @throws what sending has thrown. */
  async push(part: Part, { ms, bytes }: ResolvedBatchOptions): Promise<void> {
    const pending = this.#join(part);
    if (pending === undefined) {
      this.#release();
      this.#hand(part);
    } else if (pending.bytes >= bytes) {
      this.#release();
    } else {
      this.#cancelTimer ??= this.#clock.after(ms, () => this.#release());
      return;
    }
    await this.#sent;
  }

  /** Sends what waits. @throws what sending has thrown. */
  async flush(): Promise<void> {
    this.#release();
    await this.#sent;
  }

  /** Nobody wants the reply any more. */
  drop(): void {
    this.#pending = undefined;
    this.#release();
  }

  /** What waits together with `part`; `undefined` for parts that go out by themselves. */
  #join(part: Part): Pending | undefined {
    const text = typeof part === 'string' ? part : textOf(part);
    const ids = text === undefined ? idsOf(part) : undefined;
    const kind = text === undefined ? 'tokens' : 'text';
    if (text === undefined && ids === undefined) return undefined;
    if (this.#pending !== undefined && this.#pending.kind !== kind) this.#release();
    this.#pending ??= kind === 'text' ? { kind, text: '', bytes: 0 } : { kind, ids: [], bytes: 0 };
    if (this.#pending.kind === 'text') {
      this.#pending.text += text;
      this.#pending.bytes += utf8Length(text ?? '');
    } else {
      for (const id of ids ?? []) {
        this.#pending.ids.push(id);
        this.#pending.bytes += id < 0x80 ? 1 : id < 0x4000 ? 2 : 3;
      }
    }
    return this.#pending;
  }

  #release(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending !== undefined) this.#hand(pending.kind === 'text' ? pending.text : { tokens: pending.ids });
  }

  #hand(part: Part): void {
    this.#sent = this.#sent.then(() => this.#send(part));
    // Whoever pushes or flushes next hears of a failure; until then nobody does.
    this.#sent.catch(() => {});
  }
}

function textOf(part: Exclude<Part, string>): string | undefined {
  return typeof part === 'object' && part !== null && 'text' in part && typeof part.text === 'string'
    ? part.text
    : undefined;
}

function idsOf(part: Part): Iterable<number> | undefined {
  return typeof part === 'object' && part !== null && 'tokens' in part ? part.tokens : undefined;
}
