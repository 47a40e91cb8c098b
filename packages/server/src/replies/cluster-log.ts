import type { RemoteReplies } from '../cluster/remote-replies.js';
import { listable } from './list.js';
import type {
  NodeReplyLog,
  OwnedName,
  ReplyEnd,
  ReplyEntry,
  ReplyHead,
  ReplyLog,
  ReplyLogUsage,
  ReplyPieces,
} from './log.js';

/**
 * The replies that this node keeps, and those of other nodes, which can only be read here. Which node has a reply is the
 * same to a reader, also while the reply moves: parts have numbers.
 */
export class ClusterReplyLog implements ReplyLog {
  readonly #local: NodeReplyLog;
  readonly #remote: RemoteReplies;

  constructor(local: NodeReplyLog, remote: RemoteReplies) {
    this.#local = local;
    this.#remote = remote;
  }

  get usage(): ReplyLogUsage {
    return this.#local.usage;
  }

  open(head: ReplyHead) {
    return this.#local.open(head);
  }
  append(id: string, record: Uint8Array) {
    return this.#local.append(id, record);
  }
  end(id: string, end: ReplyEnd) {
    return this.#local.end(id, end);
  }
  drop(id: string) {
    return this.#local.drop(id);
  }
  sweep(now: number): void {
    this.#local.sweep(now);
  }

  /** @throws {ProtocolError} `interrupted`, `timeout`. */
  async read(id: string, after: number): Promise<ReplyPieces | undefined> {
    return (await this.#local.read(id, after)) ?? (await this.#remote.read(id, after));
  }

  /** A reply that moves has ended, so its readers need not wait for changes any more. */
  watch(id: string, onChange: () => void): () => void {
    return (this.#local.has(id) ? this.#local : this.#remote).watch(id, onChange);
  }

  /** @throws {ProtocolError} `interrupted`, `timeout`. */
  async find(target: { readonly id: string } | OwnedName): Promise<ReplyEntry | undefined> {
    const found = await this.#local.find(target);
    if ('id' in target) return found ?? (await this.#remote.find(target.id));
    const elsewhere = await this.#remote.named(target);
    return elsewhere !== undefined && (found === undefined || elsewhere.startedAt > found.startedAt)
      ? elsewhere
      : found;
  }

  /** Of all nodes, as they answer. */
  async *list(owner: string): AsyncGenerator<ReplyEntry> {
    const lists = [listable(this.#local.list(owner), owner), ...this.#remote.lists(owner)];
    const seen = new Set<string>();
    for await (const entry of newestFirst(lists)) {
      // One that moves is at two nodes for a moment.
      if (seen.has(entry.id)) continue;
      seen.add(entry.id);
      yield entry;
    }
  }
}

/** Merges lists, each of which has its newest reply first. */
async function* newestFirst(lists: readonly AsyncIterable<ReplyEntry>[]): AsyncGenerator<ReplyEntry> {
  const iterators = lists.map((list) => list[Symbol.asyncIterator]());
  const heads = await Promise.all(iterators.map((iterator) => iterator.next()));
  try {
    for (;;) {
      let newest = -1;
      for (const [i, { done, value }] of heads.entries()) {
        if (done === true) continue;
        const best = heads[newest]?.value as ReplyEntry | undefined;
        if (best === undefined || value.startedAt > best.startedAt) newest = i;
      }
      const iterator = iterators[newest];
      if (iterator === undefined) return;
      yield heads[newest]?.value as ReplyEntry;
      heads[newest] = await iterator.next();
    }
  } finally {
    for (const iterator of iterators) await iterator.return?.();
  }
}
