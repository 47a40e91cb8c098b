import { utf8Length } from '../../base/text.js';
import type { Clock } from '../../platform/clock.js';
import { areTokens, contentOf, isForm, ownContent, type Part } from '../messages/part.js';
import type { ResolvedBatchOptions } from './batch-options.js';

type Pending =
  | { readonly kind: 'tokens'; readonly ids: number[]; bytes: number }
  | { readonly kind: 'text'; text: string; bytes: number };

/** Joins the parts of one reply. */
export class PartBatch {
  readonly #clock: Clock;
  readonly #send: (part: Part) => Promise<void> | undefined;
  #pending: Pending | undefined;
  #cancelTimer: (() => void) | undefined;
  /** Settles when every released batch is sent; rejects with the first failure. */
  #sent: Promise<void> = Promise.resolve();

  /** @param send called for one part at a time: the next call waits until the last one has resolved. */
  constructor(clock: Clock, send: (part: Part) => Promise<void> | undefined) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Adds a part. Resolves when there is room for the next. @throws the error of a failed `send`. */
  async push(part: Part, { ms, bytes }: ResolvedBatchOptions): Promise<void> {
    const pending = this.#join(part);
    if (pending === undefined) {
      const own = ownContent(contentOf(part));
      this.#release();
      this.#enqueue(own);
    } else if (pending.bytes >= bytes) {
      this.#release();
    } else {
      this.#cancelTimer ??= this.#clock.after(ms, () => this.#release());
      return;
    }
    await this.#sent;
  }

  /** Sends the pending batch. @throws the error of a failed `send`. */
  async flush(): Promise<void> {
    this.#release();
    await this.#sent;
  }

  /** Drops the pending batch, because the reply failed. */
  drop(): void {
    this.#pending = undefined;
    this.#release();
  }

  /**
   * Adds `part` to the pending batch and returns the batch; `undefined` for a part that is sent by itself.
   */
  #join(part: Part): Pending | undefined {
    const text = textOf(part);
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
    if (pending !== undefined)
      this.#enqueue(pending.kind === 'text' ? pending.text : { tokens: pending.ids });
  }

  #enqueue(part: Part): void {
    this.#sent = this.#sent.then(() => this.#send(part));
    // The next push or flush throws the failure; here it must not become an unhandled rejection.
    this.#sent.catch(() => {});
  }
}

/** The text of a part that is text; JSON is a part by itself. */
export function textOf(part: unknown): string | undefined {
  if (typeof part === 'string') return part;
  return isForm(part as Part, 'text') && typeof (part as { text: unknown }).text === 'string'
    ? (part as { text: string }).text
    : undefined;
}

function idsOf(part: Part): Iterable<number> | undefined {
  return isForm(part, 'tokens') && areTokens(part.tokens) ? part.tokens : undefined;
}
