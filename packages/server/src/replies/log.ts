import { ProtocolError } from '@parlance/protocol';
import { MemoryBudget } from '@parlance/protocol/internal';
import { pause } from '../base/repeat.js';
import type { LocalReplies } from '../engine/logs/local.js';
import { type EngineBounds, type EngineEntry, type EngineHead, UNKNOWN } from '../engine/logs/logs.js';
import type { ReplyEnd, ReplyEntry, ReplyPieces } from '../engine/logs/reply.js';
import { EngineAnswers } from './answers.js';
import { claimReply, type GoingOn, type GoneOn } from './claiming.js';
import { EngineWriter, type EngineWriterOptions, LIVE_MARGIN_MS } from './engine-writer.js';
import { Followed } from './followed.js';
import { isChanged } from './is-changed.js';
import { LocalWriter } from './local-writer.js';
import { mergeNewest } from './merge.js';
import { lost, Orphans, type OrphansOptions } from './orphans.js';
import type { OnFailed, Writer } from './writer.js';

export interface ReplyLogOptions extends OrphansOptions {
  /** The same replies, if the engine is the memory of this process. @default it is not */
  readonly local?: LocalReplies | undefined;
  /** `maxBytes` is about what this node has of the replies that it writes. */
  readonly bounds: EngineBounds & { readonly maxBytes: number };
  /** How long a client may be away before its session is over, in milliseconds. @default 0 */
  readonly awaitMs?: number | undefined;
  /** How long the engine may not take a part, in milliseconds. @default 5,000 */
  readonly stallMs?: number | undefined;
  /** The delay after a call that was not answered, in milliseconds. @default 100 or 200 */
  readonly retryMs?: number | undefined;
}

/** How often what is followed is looked after, in milliseconds; and how often what is written, in checks. */
const CHECK_MS = 2_000;
const KEEP_CHECKS = 7;
/** A node says every {@link CHECK_MS} that a reply is followed there. */
const FOLLOWED_MS = 3 * CHECK_MS;
/** How long the ends of replies may take to be written when the server closes, in milliseconds. */
const CLOSE_MS = 2_000;
/** How long the requester may read what the engine has not taken, in milliseconds. */
const FAILED_MS = 60_000;
/** Bytes of memory that a new writer must find. */
const WRITER_ROOM = 64 * 1024;

/** The record of kept replies, in the engine. With one beyond this process they outlive their node. */
export class ReplyLog {
  readonly #options: ReplyLogOptions;
  readonly #orphans: Orphans;
  /** The memory of the writers, by owner. */
  readonly #budget: MemoryBudget;
  /** The bytes that are counted of each writer. */
  readonly #counted = new Map<Writer, number>();
  readonly #writers = new Map<string, Writer>();
  readonly #followed = new Map<string, { readonly followed: Followed; readonly stop: () => void }>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #stopListening: (() => void) | undefined;
  #checks = 0;
  readonly #answers: EngineAnswers;
  #isClosed = false;

  constructor(options: ReplyLogOptions) {
    this.#options = options;
    this.#answers = new EngineAnswers(options);
    this.#budget = new MemoryBudget(options.bounds.maxBytes);
    this.#orphans = new Orphans(options, (id) => this.#isWriting(id));
  }

  get incarnation(): string {
    return this.#options.incarnation;
  }

  /** Replies that this node writes, and the bytes of memory that it has of them; all replies, if they are in its memory. */
  get usage(): LocalReplies['usage'] {
    return this.#options.local?.usage ?? { replies: this.#writers.size, bytes: this.#budget.used };
  }

  /** Replies of other nodes that are followed here. */
  get watched(): number {
    let count = 0;
    for (const id of this.#followed.keys()) if (!this.#writers.has(id)) count++;
    return count;
  }

  // --- writing

  /**
   * Begins a reply.
   *
   * @param onFailed the log takes no more of it, which is found out later.
   * @returns `undefined` if it has begun.
   * @throws {ProtocolError} `too_many_replies`, `over_budget`.
   */
  open(head: EngineHead, onFailed: OnFailed = () => {}): Promise<void> | undefined {
    const { bounds, incarnation, local } = this.#options;
    const { id, owner } = head;
    const isFull = () =>
      !this.#budget.hasRoom([owner], WRITER_ROOM) || this.#budget.used + WRITER_ROOM > bounds.maxBytes;
    if (local === undefined && isFull())
      throw new ProtocolError(
        'over_budget',
        'the server has no memory for more kept replies; try again later',
      );
    const writer = this.#write({ ...head, by: incarnation }, onFailed);
    return writer.open?.().catch((error: unknown) => {
      this.#forget(id, writer);
      throw error;
    });
  }

  /**
   * Continues a reply that another node has written. The engine refuses that node from now on.
   *
   * @throws {ProtocolError} as `claimReply`; `timeout` only if the reply is not wanted any more.
   */
  async goOn(id: string, going: GoingOn): Promise<GoneOn> {
    const host = {
      ...this.#options,
      liveMsOf: (head: EngineHead) => this.#liveMsOf(head),
      patiently: <Result>(run: () => Promise<Result>) => this.#answers.patiently(run, going.isWanted),
    };
    const former = this.#writers.get(id);
    const gone = await claimReply(host, id, going);
    // This node's own writer from before is fenced, and may have parts that are not recorded.
    if (former !== undefined) this.#forget(id, former);
    if (gone.outcome === 'done') this.#write(gone.head, going.onFailed, gone.from);
    return gone;
  }

  /** Writes nothing of a reply any more. Another node continues it if its requester asks again. */
  leave(id: string): void {
    this.#writers.get(id)?.leave();
    this.#orphans.left.add(id);
    this.#tick();
  }

  #liveMsOf({ ttlMs, source }: EngineHead): number {
    const { awaitMs = 0 } = this.#options;
    return Math.max(ttlMs, source === undefined ? 0 : awaitMs) + LIVE_MARGIN_MS;
  }

  #write(head: EngineHead, onFailed: OnFailed, from?: EngineWriterOptions['from']): Writer {
    const { engine, bounds, incarnation, stallMs, retryMs, now, local } = this.#options;
    const { id } = head;
    const options: EngineWriterOptions = {
      ...{ engine, bounds, head, by: incarnation, from, stallMs, retryMs, now },
      liveMs: this.#liveMsOf(head),
      onWritten: (from, records) => {
        const news = records === undefined ? UNKNOWN : { from, records };
        this.#followed.get(id)?.followed.handleChanges(news);
        this.#count(writer);
        // The requester may still need what the engine does not have.
        if (writer.isOver && !writer.hasFailed) this.#forget(id, writer);
      },
      onFailed,
      onAnswer: (error) => this.#answers.handle(error),
    };
    const writer = local === undefined ? new EngineWriter(options) : new LocalWriter(local, options);
    const former = this.#writers.get(id);
    if (former !== undefined) this.#forget(id, former);
    this.#writers.set(id, writer);
    this.#stopListening ??= engine.listen(incarnation, (ended) => this.#handleEnded(ended));
    if (local === undefined) {
      this.#budget.join(head.owner);
      this.#counted.set(writer, 0);
      this.#count(writer);
    }
    this.#tick();
    return writer;
  }

  /** Another node has ended a reply that is written here, or any of them if it is `undefined`. */
  #handleEnded(id: string | undefined): void {
    for (const writer of id === undefined ? this.#writers.values() : [this.#writers.get(id)])
      void writer?.keep();
  }

  /** Another writer may continue the reply here. */
  #forget(id: string, writer: Writer): void {
    if (this.#writers.get(id) === writer) this.#writers.delete(id);
    const counted = this.#counted.get(writer);
    if (counted === undefined) return;
    this.#counted.delete(writer);
    this.#budget.add([writer.head.owner], -counted);
    this.#budget.leave(writer.head.owner);
  }

  /** The memory of a writer has changed. */
  #count(writer: Writer): void {
    const counted = this.#counted.get(writer);
    if (counted === undefined) return;
    const { bytes } = writer;
    this.#counted.set(writer, bytes);
    this.#budget.add([writer.head.owner], bytes - counted);
  }

  /**
   * Adds a part, which may be recorded later. Resolves when there is room for the next one; `undefined` if there is.
   *
   * @throws {ProtocolError} `reply_too_large`, `over_budget`; nothing is added then.
   */
  append(id: string, record: Uint8Array): Promise<void> | undefined {
    const writer = this.#writers.get(id);
    const appended = writer?.append(record);
    if (writer !== undefined) this.#count(writer);
    return appended;
  }

  /**
   * Adds the end; a reply that has ended stays as it is. An end of at most `SMALL_END` bytes is never refused.
   *
   * @throws {ProtocolError} `reply_too_large`, `over_budget`; the reply has no end then.
   */
  end(id: string, end: ReplyEnd): Promise<void> | undefined {
    return this.#writers.get(id)?.end(end);
  }

  /** Forgets a reply that is written here. */
  drop(id: string): Promise<void> | undefined {
    return this.#writers.get(id)?.drop();
  }

  /** The requester of a reply that has ended needs it no more. @param isRead it was sent all of it. */
  release(id: string, isRead: boolean): void {
    this.#options.local?.release(id, isRead);
  }

  /** As {@link read}, for the requester, who may know of parts that are not recorded yet. */
  async readOwn(id: string, after: number): Promise<ReplyPieces | undefined> {
    const records = this.#writers.get(id)?.read(after);
    if (records === undefined) return await this.read(id, after);
    return { records, metadata: undefined, end: undefined };
  }

  /** Whether a reply of this node is followed at another one. */
  async isFollowed(id: string): Promise<boolean> {
    const followedMs = await this.#writers.get(id)?.keep();
    return followedMs !== undefined && followedMs < FOLLOWED_MS;
  }

  // --- reading

  /**
   * The parts after number `after`, as many as there are, up to some 16 KiB or `READ_PARTS` parts; `undefined` if
   * there is no such reply.
   *
   * @param isOn for a reader that has read up to there, and so needs no metadata. @default false
   */
  async read(id: string, after: number, isOn = false): Promise<ReplyPieces | undefined> {
    const followed = this.#followed.get(id)?.followed;
    const published = isOn ? followed?.read(after) : undefined;
    if (published !== undefined) return published;
    const changes = followed?.changes ?? 0;
    const pieces = await this.#answers.patiently(() => this.#options.engine.read(id, after));
    if (pieces !== undefined) followed?.handleRead(after, pieces, changes);
    else if (this.#options.local === undefined && followed?.isRunning === true && after > 0) throw lost();
    return pieces;
  }

  /** Calls `onChange` after each part and the end, until the returned function is called. */
  watch(id: string, onChange: () => void): () => void {
    let entry = this.#followed.get(id);
    if (entry === undefined) {
      const followed = new Followed();
      const stop = this.#isWriting(id)
        ? () => {}
        : this.#options.engine.watch(id, (news) => followed.handleChanges(news));
      entry = { followed, stop };
      this.#followed.set(id, entry);
      this.#tick();
    }
    const { followed, stop } = entry;
    followed.add(onChange);
    return () => {
      followed.delete(onChange);
      if (followed.size > 0 || this.#followed.get(id)?.followed !== followed) return;
      this.#followed.delete(id);
      stop();
    };
  }

  /** A reply by its ID, or the newest with this name of this owner. */
  async find(
    target: { readonly id: string } | { readonly owner: string; readonly name: string },
  ): Promise<ReplyEntry | undefined> {
    const { engine } = this.#options;
    const find = () => ('id' in target ? engine.find(target.id) : engine.named(target.owner, target.name));
    const entry = await this.#answers.patiently(find);
    return entry && (await this.#checked(entry));
  }

  /** Ends a reply, whichever node writes it; its handler has ended if this one does. */
  async cancel(id: string): Promise<void> {
    for (;;) {
      const entry = await this.#answers.patiently(() => this.#options.engine.find(id));
      if (entry === undefined || entry.end !== undefined || this.#isWriting(id)) return;
      // Another node has continued it since it was found.
      if ((await this.#answers.patiently(() => this.#orphans.cancel(entry))) !== 'ended') return;
    }
  }

  /** The replies of an owner, and those of others that are shared, newest first. */
  async *list(owner: string): AsyncGenerator<ReplyEntry> {
    yield* mergeNewest([this.#listOf(owner), this.#shared(owner)]);
  }

  /** Forgets replies whose time is over, and writers that have failed a while ago. */
  sweep(): void {
    this.#options.local?.sweep();
    const due = performance.now() - FAILED_MS;
    for (const [id, writer] of this.#writers)
      if (writer.isOver && writer.overSince <= due) this.#forget(id, writer);
  }

  /** Resolves when the replies of this node have ended in the engine, or after a while. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#answers.isClosed = true;
    const deadline = performance.now() + CLOSE_MS;
    while ([...this.#writers.values()].some(({ isOver }) => !isOver) && performance.now() < deadline)
      await pause(10);
    clearInterval(this.#timer);
    for (const { stop } of this.#followed.values()) stop();
    this.#stopListening?.();
    await this.#options.engine.close();
  }

  async *#listOf(owner: string): AsyncGenerator<ReplyEntry> {
    let before: number | undefined;
    do {
      const from = before;
      const page = await this.#answers.patiently(() => this.#options.engine.list(owner, from));
      for (const entry of page.entries) yield (await this.#checked(entry)) ?? entry;
      before = page.before;
    } while (before !== undefined);
  }

  /** Of other owners. */
  async *#shared(owner: string): AsyncGenerator<ReplyEntry> {
    for (const id of await this.#answers.patiently(() => this.#options.engine.shared())) {
      const entry = await this.#sharedEntry(id);
      if (entry !== undefined && entry.owner !== owner) yield (await this.#checked(entry)) ?? entry;
    }
  }

  /** One that was changed in the engine is left out, because others than its owner are not told of it. */
  async #sharedEntry(id: string): Promise<EngineEntry | undefined> {
    try {
      return await this.#answers.patiently(() => this.#options.engine.find(id));
    } catch (error) {
      if (isChanged(error)) return undefined;
      throw error;
    }
  }

  /** A reply whose writer is gone is ended by the first node that asks for it. */
  async #checked(entry: EngineEntry): Promise<ReplyEntry | undefined> {
    if (entry.end !== undefined || !(await this.#orphans.has(entry.id, entry))) return entry;
    await this.#answers.patiently(() => this.#orphans.interrupt(entry));
    return await this.#answers.patiently(() => this.#options.engine.find(entry.id));
  }

  #isWriting(id: string): boolean {
    return this.#writers.get(id)?.isOver === false;
  }

  // --- looking after what is written and followed

  #tick(): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setInterval(() => this.#check(), CHECK_MS);
    this.#timer.unref();
  }

  #check(): void {
    if (this.#writers.size + this.#followed.size + this.#orphans.left.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    this.#checks++;
    if (this.#checks % KEEP_CHECKS === 0) for (const writer of this.#writers.values()) void writer.keep();
    void this.#orphans.checkLeft();
    for (const [id, { followed }] of this.#followed)
      if (!followed.hasEnded && !this.#isWriting(id)) void this.#checkFollowed(id, followed);
  }

  /** Says that a reply is followed, and finds out what was not published. Never rejects. */
  async #checkFollowed(id: string, followed: Followed): Promise<void> {
    const { last } = followed;
    try {
      const state = await this.#options.engine.follow(id);
      const isOver = state === undefined || state.hasEnded || state.parts > last;
      if (isOver || (await this.#orphans.has(id, state))) {
        if (!isOver) await this.find({ id });
        followed.handleChanges(UNKNOWN);
      }
    } catch (error) {
      this.#answers.handle(error);
      if (isChanged(error)) followed.fail(error);
    }
  }
}
