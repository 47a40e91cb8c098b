import type { RemoteReplies } from '../cluster/replies/remote-replies.js';
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
import { mergeNewest } from './merge.js';

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
    for await (const entry of mergeNewest(lists)) {
      // One that moves is at two nodes for a moment.
      if (seen.has(entry.id)) continue;
      seen.add(entry.id);
      yield entry;
    }
  }
}
