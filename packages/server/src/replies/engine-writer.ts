import { setImmediate } from 'node:timers';
import { ProtocolError } from '@parlance/protocol';
import { encodeFailure } from '@parlance/protocol/internal';
import { pause } from '../base/repeat.js';
import {
  type AppendOutcome,
  type EngineBounds,
  type EngineHead,
  framedLength,
  type ReplyBatch,
  type ReplyLogs,
} from '../engine/logs/logs.js';
import type { ReplyEnd } from '../engine/logs/reply.js';
import { Tail } from './tail.js';
import { batchOf, type Failing, type OnFailed, type Writer } from './writer.js';

/** Parts of one reply that may not be recorded yet, and their bytes; beyond, the handler waits. */
export const MAX_PENDING = 64;
export const MAX_PENDING_BYTES = 256 * 1024;
/**
 * How long parts are collected for one call, in milliseconds. Parts of recorded sessions are written when they are
 * recorded with their sessions.
 */
export const BATCH_MS = 50;
/** How long the engine may not take a part before the reply is no longer kept, in milliseconds. */
export const STALL_MS = 5_000;
/** Calls that have failed by then, at least: a process that was stopped itself asks again first. */
const MIN_CALLS = 3;
/** How long the end of a reply that is no longer kept is tried to be written, in milliseconds. */
const END_MS = 60_000;
const RETRY_MS = 100;
/** Bytes of memory of a writer and of what records its reply, without parts (measured: 4.8 kB). */
const WRITER_MEMORY = 6 * 1024;
/** A reply without a sign of its writer is kept for so much longer than an ended one, in milliseconds. */
export const LIVE_MARGIN_MS = 60_000;

export interface EngineWriterOptions {
  readonly engine: ReplyLogs;
  readonly bounds: EngineBounds;
  readonly head: EngineHead;
  /** The node. */
  readonly by: string;
  /** The parts that are recorded already, if another node has begun the reply. @default none */
  readonly from?: { readonly parts: number; readonly offset: number } | undefined;
  /** How long it is kept without a sign of its writer, in milliseconds. */
  readonly liveMs: number;
  /** @default 5,000 */
  readonly stallMs?: number | undefined;
  /** The delay after a call that was not answered, in milliseconds. @default 100 */
  readonly retryMs?: number | undefined;
  /** Parts are recorded, or the end is (`undefined`). */
  readonly onWritten: (from: number, records: readonly Uint8Array[] | undefined) => void;
  /** Unix milliseconds. */
  readonly now: () => number;
  /** The reply is no longer kept, and its record ends with this. */
  readonly onFailed: OnFailed;
  /** The engine has answered, or has not. */
  readonly onAnswer: (error: unknown) => void;
}

/**
 * Writes one reply to the engine: at once when it begins to speak, and then the parts that have come within
 * {@link BATCH_MS}. Parts that fill its room are written sooner, so that the handler need not wait, and so are parts
 * before the end.
 */
export class EngineWriter implements Writer {
  readonly head: EngineHead;
  /** Nothing more is written. */
  isOver = false;
  /** The reply is in the engine, and its end was not sent there. */
  #isOpen: boolean;
  /** Reading of `performance.now()`. */
  overSince = 0;
  readonly #options: EngineWriterOptions;
  readonly #tail: Tail;
  readonly #waiting: (() => void)[] = [];
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  /** Recorded parts, and their bytes. */
  #recorded: number;
  #offset: number;
  /** Parts of a call; fewer after a bound was met, so that as many as have room are taken. */
  #maxBatch = MAX_PENDING;
  #writing: Promise<void> | undefined;
  /** When parts were last sent. Reading of `performance.now()`. */
  #calledAt = Number.NEGATIVE_INFINITY;
  /** Nothing comes after what is pending. */
  #isEnding = false;
  /** Sends now what is pending. */
  #hasten = (): void => {};
  #failure: ProtocolError | undefined;

  constructor(options: EngineWriterOptions) {
    this.#options = options;
    this.head = options.head;
    const { parts, offset } = options.from ?? { parts: 0, offset: 0 };
    this.#recorded = parts;
    this.#offset = offset;
    this.#isOpen = options.from !== undefined;
    this.#tail = new Tail(parts);
  }

  /** Bytes of memory. */
  get bytes(): number {
    return WRITER_MEMORY + this.#tail.bytes;
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  get liveMs(): number {
    return this.#options.liveMs;
  }

  /** @throws {ProtocolError} `too_many_replies`, `over_budget`. */
  async open(): Promise<void> {
    const { engine, bounds } = this.#options;
    const outcome = await this.#call(() => engine.open(this.head, bounds, this.liveMs));
    if (outcome !== 'too_many_replies' && outcome !== 'over_budget') {
      this.#isOpen = true;
      return;
    }
    this.isOver = true;
    throw errorOf(outcome, bounds);
  }

  /** Resolves when there is room for the next part; `undefined` if there is. */
  append(record: Uint8Array): Promise<void> | undefined {
    if (this.#failure !== undefined || this.isOver) return undefined;
    this.#pending.push(record);
    this.#pendingBytes += record.length;
    this.#tail.push(record, this.#recorded);
    this.#writing ??= this.#write();
    if (this.#hasRoom) return undefined;
    this.#hasten();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The parts after a number, also those that are not recorded yet; `undefined` if they are not here any more. */
  read(after: number): Uint8Array[] | undefined {
    return this.#tail.read(after);
  }

  /**
   * Resolves when the end is recorded, or the reply is no longer kept.
   *
   * @throws {ProtocolError} `reply_too_large`, `over_budget`.
   */
  async end(end: ReplyEnd): Promise<void> {
    if (this.isOver) return;
    await this.#finishWriting();
    if (this.#failure !== undefined) return;
    const { engine, bounds, by } = this.#options;
    const { head } = this;
    const parts = this.#recorded;
    this.#isOpen = false;
    const outcome = await this.#call(() => engine.end({ ...head, parts, by, end }, bounds));
    if (outcome === undefined) return;
    if (outcome === 'reply_too_large' || outcome === 'over_budget') throw errorOf(outcome, bounds);
    if (outcome === 'done') this.#handleOver();
    else this.#handleOutcome(outcome);
  }

  /** Another node continues it: nothing more is written. */
  leave(): void {
    this.#failure ??= new ProtocolError('interrupted', 'another node continues the reply');
    this.#handleOver();
  }

  /** Never rejects. */
  async drop(): Promise<void> {
    await this.#finishWriting();
    this.#isOpen = false;
    await this.#call(() => this.#options.engine.drop(this.head));
    this.#handleOver();
  }

  /** Says that the reply is still written. @returns how long ago it was followed elsewhere, in milliseconds. Never rejects. */
  async keep(): Promise<number> {
    if (!this.#isKept) return Infinity;
    try {
      const kept = await this.#options.engine.keep(this.head, this.liveMs);
      if (kept.outcome === 'done') return kept.followedMs;
      // An answer that has met the end on its way says nothing.
      if (this.#isKept) this.#handleOutcome(kept.outcome);
    } catch {
      // The next part tells.
    }
    return Infinity;
  }

  get #isKept(): boolean {
    return this.#isOpen && this.#failure === undefined && !this.isOver;
  }

  get #hasRoom(): boolean {
    return this.#pending.length < MAX_PENDING && this.#pendingBytes < MAX_PENDING_BYTES;
  }

  /** Never rejects. */
  async #write(): Promise<void> {
    const { engine, bounds } = this.#options;
    while (this.#pending.length > 0 && this.#failure === undefined) {
      await this.#collect();
      if (this.#failure !== undefined) break;
      const records = this.#pending.slice(0, this.#maxBatch);
      const batch = batchOf(this.head, this.#recorded, this.#offset, records);
      const outcome = await this.#call(() => engine.append(batch, bounds, this.liveMs));
      const isRefused = outcome === 'reply_too_large' || outcome === 'over_budget';
      if (outcome === 'done') this.#handleWritten(batch);
      else if (isRefused && batch.records.length > 1) this.#maxBatch = Math.ceil(batch.records.length / 2);
      else if (outcome !== undefined) this.#handleOutcome(outcome);
    }
    this.#writing = undefined;
  }

  /** Resolves when the next call is due; all parts of one tick of the event loop go together. */
  async #collect(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    const waitMs = this.#calledAt + BATCH_MS - performance.now();
    if (this.head.source === undefined && waitMs > 0 && this.#hasRoom && !this.#isEnding)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs);
        this.#hasten = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    this.#calledAt = performance.now();
  }

  #finishWriting(): Promise<void> | undefined {
    this.#isEnding = true;
    this.#hasten();
    return this.#writing;
  }

  #handleWritten({ from, records }: ReplyBatch): void {
    this.#pending = this.#pending.slice(records.length);
    for (const record of records) {
      this.#pendingBytes -= record.length;
      this.#offset += framedLength(record);
    }
    this.#recorded += records.length;
    this.#options.onWritten(from, records);
    if (this.#hasRoom) this.#release();
  }

  #release(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #handleOutcome(outcome: Exclude<AppendOutcome, 'done'>): void {
    const why = outcome === 'ended' ? 'fenced' : outcome === 'stopped' ? outcome : 'full';
    this.#fail(errorOf(outcome, this.#options.bounds), why);
  }

  #fail(error: ProtocolError, why: Failing): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#release();
    this.#options.onFailed(error, why);
    if (why === 'full') void this.#endFailed(error);
    else this.#handleOver();
  }

  #handleOver(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.overSince = performance.now();
    this.#release();
    this.#options.onWritten(this.#recorded, undefined);
  }

  /** Calls the engine until it answers; `undefined` if it does not for too long. */
  async #call<Outcome>(run: () => Promise<Outcome>): Promise<Outcome | undefined> {
    const { onAnswer, stallMs = STALL_MS, retryMs = RETRY_MS } = this.#options;
    const began = performance.now();
    for (let calls = 1; ; calls++) {
      try {
        const outcome = await run();
        onAnswer(undefined);
        return outcome;
      } catch (cause) {
        onAnswer(cause);
        if (this.#failure !== undefined) return undefined;
        if (calls >= MIN_CALLS && performance.now() - began >= stallMs) {
          const message = `the engine has taken no part for ${stallMs} ms`;
          this.#fail(new ProtocolError('timeout', message, { cause }), 'full');
          return undefined;
        }
        await pause(retryMs);
      }
    }
  }

  /** The record ends as it is, as soon as the engine takes that. Never rejects. */
  async #endFailed(error: ProtocolError): Promise<void> {
    const { engine, bounds, by, now } = this.#options;
    const end = { at: now(), failure: encodeFailure(error), metadata: undefined };
    const deadline = performance.now() + END_MS;
    while (!this.isOver) {
      try {
        await engine.end({ ...this.head, parts: undefined, by, end, why: 'given_up' }, bounds);
        this.#handleOver();
      } catch {
        if (performance.now() >= deadline) this.#handleOver();
        else await pause(RETRY_MS);
      }
    }
  }
}

function errorOf(
  outcome: Exclude<AppendOutcome, 'done'> | 'too_many_replies',
  { maxReplies, maxReplyBytes, maxOwnerBytes }: EngineBounds,
): ProtocolError {
  switch (outcome) {
    case 'too_many_replies':
      return new ProtocolError(
        outcome,
        `this principal has ${maxReplies} kept replies, which is the most; more can be kept when the first of them expire`,
      );
    case 'reply_too_large':
      return new ProtocolError(outcome, `a kept reply may take ${maxReplyBytes} bytes`);
    case 'over_budget':
      return new ProtocolError(outcome, `the replies of one principal may take ${maxOwnerBytes} bytes`);
    case 'stopped':
      return new ProtocolError('cancelled', 'the reply was stopped');
    case 'ended':
      return new ProtocolError('interrupted', 'another node has ended the reply: this one seemed to be gone');
    default:
      return new ProtocolError('interrupted', 'the engine has lost parts of the reply');
  }
}
