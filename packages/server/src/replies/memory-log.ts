import { keyOf } from '../base/keys.js';
import { RecordStore } from '../engine/logs/record-store.js';
import {
  READ_PARTS,
  type ReplyEnd,
  type ReplyEntry,
  type ReplyHead,
  type ReplyPieces,
} from '../engine/logs/reply.js';
import { type OwnedName, type ReplyLog, type ReplyLogUsage, SMALL_END } from './log.js';
import { metadataOf } from './record.js';
import { SharedReplies } from './shared-replies.js';
import { type Charged, type ReplyBounds, Shares } from './shares.js';

/** Bytes of memory of an array beside its bytes, and of what refers to it. */
const ARRAY_MEMORY = 288;
/** Bytes of memory of a reply without parts: objects, ID, entries of maps (measured: 0.9 to 1.2 kB). */
const REPLY_MEMORY = 1280;
/** Bytes of memory of a {@link SMALL_END}, which a reply has from its beginning. */
const END_MEMORY = 2 * ARRAY_MEMORY + SMALL_END;
/** Bytes of records that one call returns, and at least one record. */
const READ_SIZE = 16 * 1024;

interface Stored extends Charged<Stored> {
  /** In the order in which they began. */
  readonly number: number;
  readonly head: ReplyHead;
  readonly records: RecordStore;
  /** Metadata by the number of parts before it; only what differs. */
  readonly metadata: { readonly after: number; readonly bytes: Uint8Array }[];
  readonly watchers: Set<() => void>;
  end: ReplyEnd | undefined;
  /** When it has ended, by the clock of the log. */
  endedAt: number;
  /** Its requester needs it no more. */
  isReleased: boolean;
  /** It was read to the end. */
  isRead: boolean;
}

/** Keeps replies in the memory of the process. */
export class MemoryReplyLog implements ReplyLog {
  readonly #shares: Shares<Stored>;
  readonly #onDropped: (reply: ReplyEntry) => void;
  readonly #now: (() => number) | undefined;
  readonly #replies = new Map<string, Stored>();
  readonly #names = new Map<string, Stored>();
  /** Replies that others than their owner may follow, if the server lets them. */
  readonly #shared = new SharedReplies<Stored>();
  readonly #ended = new Set<Stored>();
  #begun = 0;

  /**
   * @param onDropped a reply had to go to make room for others.
   * @param now the clock of {@link sweep}. @default that of the ends
   */
  constructor(
    bounds: ReplyBounds,
    onDropped: (reply: ReplyEntry) => void = () => {},
    now?: (() => number) | undefined,
  ) {
    this.#onDropped = onDropped;
    this.#now = now;
    this.#shares = new Shares(bounds, (stored) => this.#dropForOthers(stored));
  }

  get usage(): ReplyLogUsage {
    return { replies: this.#replies.size, bytes: this.#shares.bytes };
  }

  open(head: ReplyHead): void {
    const { id, owner, name, share } = head;
    const texts = [id, owner, head.principal, name, share].map((text) => 2 * (text?.length ?? 0));
    const memory = texts.reduce((sum, each) => sum + each, REPLY_MEMORY + END_MEMORY);
    const stored: Stored = {
      number: this.#begun++,
      head,
      account: this.#shares.accountOf(owner),
      records: new RecordStore(),
      metadata: [],
      watchers: new Set(),
      memory: 0,
      isFree: false,
      end: undefined,
      endedAt: Infinity,
      isReleased: false,
      isRead: false,
    };
    this.#shares.add(stored, memory);
    this.#replies.set(id, stored);
    if (share !== undefined) this.#shared.add(stored);
    if (name !== undefined) this.#names.set(keyOf(owner, name), stored);
  }

  append(id: string, record: Uint8Array): void {
    const stored = this.#replies.get(id);
    if (stored === undefined || stored.end !== undefined) return;
    const { records } = stored;
    // A copy: it would keep all of the record alive.
    const metadata = metadataOf(record)?.slice();
    const growth = records.growthFor(record.length) + memoryOf(metadata);
    this.#shares.charge(stored, growth);
    if (metadata !== undefined) stored.metadata.push({ after: records.size + 1, bytes: metadata });
    records.append(record);
    notify(stored);
  }

  end(id: string, end: ReplyEnd): void {
    const stored = this.#replies.get(id);
    if (stored === undefined || stored.end !== undefined) return;
    this.#shares.charge(stored, Math.max(0, memoryOf(end.failure) + memoryOf(end.metadata) - END_MEMORY));
    stored.end = end;
    stored.endedAt = this.#now?.() ?? end.at;
    this.#shares.discharge(stored, stored.records.trim());
    this.#ended.add(stored);
    this.#freeIfOver(stored);
    notify(stored);
  }

  release(id: string, isRead: boolean): void {
    const stored = this.#replies.get(id);
    if (stored === undefined) return;
    stored.isReleased = true;
    stored.isRead ||= isRead;
    this.#freeIfOver(stored);
  }

  #freeIfOver(stored: Stored): void {
    if (stored.end !== undefined && stored.isReleased) this.#shares.free(stored, stored.isRead);
  }

  read(id: string, after: number): ReplyPieces | undefined {
    const stored = this.#replies.get(id);
    if (stored === undefined) return undefined;
    const { records, end } = stored;
    const pieces = records.read(after, READ_SIZE, READ_PARTS);
    const isAll = after + pieces.length >= records.size;
    if (isAll && end !== undefined && !stored.isRead) {
      stored.isRead = true;
      this.#freeIfOver(stored);
    }
    return {
      records: pieces,
      metadata: stored.metadata.findLast((each) => each.after <= after)?.bytes,
      end: isAll ? end : undefined,
    };
  }

  watch(id: string, onChange: () => void): () => void {
    const watchers = this.#replies.get(id)?.watchers;
    watchers?.add(onChange);
    return () => watchers?.delete(onChange);
  }

  find(target: { readonly id: string } | OwnedName): ReplyEntry | undefined {
    const stored =
      'id' in target ? this.#replies.get(target.id) : this.#names.get(keyOf(target.owner, target.name));
    return stored && entryOf(stored);
  }

  *list(owner: string): Iterable<ReplyEntry> {
    const own = [...this.#shares.accountOf(owner).replies].sort((a, b) => (isOlder(a, b) ? -1 : 1));
    for (const shared of this.#shared) {
      if (shared.head.owner === owner) continue;
      for (let last = own.at(-1); last !== undefined && isOlder(shared, last); last = own.at(-1)) {
        yield* this.#listed(own.pop());
      }
      yield* this.#listed(shared);
    }
    for (const stored of own.reverse()) yield* this.#listed(stored);
  }

  drop(id: string): void {
    const stored = this.#replies.get(id);
    if (stored === undefined) return;
    const { head } = stored;
    this.#replies.delete(id);
    this.#shared.delete(stored);
    this.#ended.delete(stored);
    const name = head.name === undefined ? undefined : keyOf(head.owner, head.name);
    this.#shares.remove(stored);
    if (name !== undefined && this.#names.get(name) === stored) this.#rename(name, stored);
    notify(stored);
  }

  /** The name of a reply that is gone means the newest one that is left. */
  #rename(name: string, { account, head }: Stored): void {
    let newest: Stored | undefined;
    for (const each of account.replies) {
      if (each.head.name !== head.name) continue;
      if (newest === undefined || isOlder(newest, each)) newest = each;
    }
    if (newest === undefined) this.#names.delete(name);
    else this.#names.set(name, newest);
  }

  #dropForOthers(stored: Stored): void {
    this.#onDropped(entryOf(stored));
    this.drop(stored.head.id);
  }

  sweep(now: number): void {
    for (const { head, endedAt } of this.#ended) if (now >= endedAt + head.ttlMs) this.drop(head.id);
  }

  /** The entry of a reply, unless it was dropped while the list was read. */
  *#listed(stored: Stored | undefined): Iterable<ReplyEntry> {
    if (stored !== undefined && this.#replies.has(stored.head.id)) yield entryOf(stored);
  }
}

/** Bytes of memory of an array and its entry. */
function memoryOf(bytes: Uint8Array | undefined): number {
  return bytes === undefined ? 0 : ARRAY_MEMORY + bytes.length;
}

function entryOf({ head, records, end }: Stored): ReplyEntry {
  return { ...head, parts: records.size, end };
}

function isOlder(a: Stored, b: Stored): boolean {
  return a.number < b.number;
}

function notify({ watchers }: Stored): void {
  for (const onChange of watchers) onChange();
}
