import { type Logger, ProtocolError } from '@parlance/protocol';
import { loggable, nodeOfReply } from '@parlance/protocol/internal';
import type { OwnedName, ReplyEntry, ReplyPieces } from '../../replies/log.js';
import type { ProvenOwner } from '../../replies/owners.js';
import type { KnownNode } from '../membership.js';
import { malformed, textField } from '../peer-message.js';
import { type RepliesAnswer, type RepliesLink, Unanswered } from './replies-link.js';
import { readEntry, readJson, readPieces } from './replies-message.js';
import type { RepliesPeers } from './replies-peers.js';

/** How long a reply's node may not answer before its readers are told so, in milliseconds: longer than a lease. */
const PATIENCE_MS = 10_000;
const RETRY_MS = 200;
/** How long a node may take for a piece of a list, in milliseconds. */
export const LIST_TIMEOUT_MS = 1_000;
const MAX_SILENT = 1_000;
/** Nodes that a reply was moved between since it was looked for. */
const MAX_HOPS = 16;

export interface RemoteRepliesOptions {
  readonly incarnation: string;
  readonly peers: RepliesPeers;
  readonly logger: Logger;
  /** Milliseconds of a clock. */
  readonly now: () => number;
  /** A node that counts as alive. @throws {ProtocolError} if the engine does not answer, and the node is unknown without it. */
  readonly locate: (incarnation: string) => Promise<KnownNode | undefined>;
  /** The other nodes that count as alive. */
  readonly others: () => readonly KnownNode[];
  /** The node to which this one has handed a reply over. */
  readonly movedTo: (id: string) => string | undefined;
  /** Where a reply is that has moved. @throws {ProtocolError} if the engine does not answer. */
  readonly placeOf: (id: string) => Promise<string | undefined>;
}

/** A reply of another node that is read here. */
interface Watched {
  readonly watchers: Set<() => void>;
  /** The node that has it, if that is not the one that its ID names. */
  place: string | undefined;
  /** The connection on which its node was told to report changes. */
  link: RepliesLink | undefined;
}

/** The kept replies of other nodes: each is asked for at the node that has it, which its ID or the engine names. */
export class RemoteReplies {
  readonly #options: RemoteRepliesOptions;
  readonly #watched = new Map<string, Watched>();
  /** Nodes that do not answer, of which each is logged once. */
  readonly #silent = new Set<string>();
  #lastList = 0;

  constructor(options: RemoteRepliesOptions) {
    this.#options = options;
    options.peers.onChanged = (id) => this.#notify(this.#watched.get(id));
    options.peers.onLost = (link) => {
      for (const watched of this.#watched.values()) {
        if (watched.link !== link) continue;
        watched.link = undefined;
        this.#notify(watched);
      }
    };
  }

  /** Whether the ID may be one of another node's. */
  mayHave(id: string): boolean {
    return nodeOfReply(id) !== undefined;
  }

  /** @throws {ProtocolError} `interrupted` if the node is gone, `timeout` if it does not answer. */
  async find(id: string): Promise<ReplyEntry | undefined> {
    const answer = await this.#reach(id, 'find', [id]);
    const entry = answer && readEntry(readJson(answer.bytes));
    if (entry !== undefined && entry.id !== id) throw malformed();
    return entry;
  }

  /** @throws {ProtocolError} as {@link find}. */
  async read(id: string, after: number): Promise<ReplyPieces | undefined> {
    const answer = await this.#reach(id, 'read', [id, after]);
    return answer && readPieces(answer.fields.slice(1), answer.bytes);
  }

  /** @param node that writes the reply. @default the one that has it. @throws {ProtocolError} as {@link find}. */
  async stop(id: string, principal: string, node?: string): Promise<void> {
    await this.#reach(id, 'stop', [id, principal], node);
  }

  watch(id: string, onChange: () => void): () => void {
    let watched = this.#watched.get(id);
    if (watched === undefined) {
      watched = { watchers: new Set(), place: undefined, link: undefined };
      this.#watched.set(id, watched);
    }
    const { watchers } = watched;
    watchers.add(onChange);
    return () => {
      watchers.delete(onChange);
      const current = this.#watched.get(id);
      if (watchers.size > 0 || current?.watchers !== watchers) return;
      this.#watched.delete(id);
      current.link?.unwatch(id);
    };
  }

  /** Replies of other nodes that are read here. */
  get watched(): number {
    return this.#watched.size;
  }

  /** The newest reply with a name of an owner at other nodes. A node that does not answer in time is left out. */
  async named({ owner, name }: OwnedName): Promise<ReplyEntry | undefined> {
    const found = await Promise.all(
      this.#options.others().map((node) =>
        this.#within(node, async (link) => {
          const { fields, bytes } = await link.ask('find', [owner, name]);
          return fields[0] === 'found' ? readEntry(readJson(bytes)) : undefined;
        }),
      ),
    );
    return found
      .filter((entry) => entry !== undefined && entry.owner === owner && entry.name === name)
      .toSorted((a, b) => (b?.startedAt ?? 0) - (a?.startedAt ?? 0))[0];
  }

  /** The replies at each other node. A node that does not answer in time is left out from then on. */
  lists(owner: string): AsyncIterable<ReplyEntry>[] {
    return this.#options.others().map((node) => this.#list(node, owner));
  }

  async *#list(node: KnownNode, owner: string): AsyncGenerator<ReplyEntry> {
    const number = ++this.#lastList;
    const { peers } = this.#options;
    let isOver = false;
    try {
      let piece = await this.#within(node, (link) => link.ask('list', [number, owner]));
      while (piece !== undefined) {
        const entries = readEntries(piece);
        isOver = piece.fields[0] === true;
        yield* entries;
        if (isOver || entries.length === 0) return;
        piece = await this.#within(node, (link) => link.ask('next', [number]));
      }
      isOver = true;
    } catch (error) {
      this.#reportList(node, error);
    } finally {
      if (!isOver) peers.linkTo(node).closeList(number);
    }
  }

  /** The owner that a session without a principal acts for, if the node that has had it knows the token. */
  async prove(node: string, sessionId: string, token: string): Promise<ProvenOwner | undefined> {
    const known = await this.#options.locate(node);
    if (known === undefined) return undefined;
    const answer = await this.#within(known, (link) => link.ask('prove', [sessionId, token]));
    const [key, keptUntil] = answer?.fields ?? [];
    if (typeof key !== 'string') return undefined;
    return { key, keptUntil: typeof keptUntil === 'number' ? keptUntil : undefined };
  }

  // --- asking

  /** Asks one node, once. @returns `undefined` if it does not answer in time, which is logged. */
  async #within<Value>(
    node: KnownNode,
    ask: (link: RepliesLink) => Promise<Value>,
  ): Promise<Value | undefined> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      const error = new Unanswered('silent', `no answer within ${LIST_TIMEOUT_MS} ms`);
      timer = setTimeout(() => reject(error), LIST_TIMEOUT_MS);
    });
    try {
      const answer = await Promise.race([ask(this.#options.peers.linkTo(node)), late]);
      this.#silent.delete(node.incarnation);
      return answer;
    } catch (error) {
      this.#reportList(node, error);
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  #reportList({ incarnation }: KnownNode, error: unknown): void {
    if (this.#silent.has(incarnation)) return;
    if (this.#silent.size >= MAX_SILENT) this.#silent.clear();
    this.#silent.add(incarnation);
    const fields = { event: 'replies.unlisted', node: incarnation, err: loggable(error) };
    this.#options.logger.warn(fields, 'a node does not say which replies it keeps; they are left out');
  }

  /**
   * Asks the node that has a reply. If the reply has moved, its new node is asked.
   *
   * @returns `undefined` if there is no such reply.
   * @throws {ProtocolError} as {@link find}, and what the node answers.
   */
  async #reach(
    id: string,
    type: string,
    fields: readonly unknown[],
    node?: string,
  ): Promise<RepliesAnswer | undefined> {
    const { incarnation, movedTo, now } = this.#options;
    const tag = nodeOfReply(id);
    if (tag === undefined) return undefined;
    const deadline = now() + PATIENCE_MS;
    let place = node ?? this.#watched.get(id)?.place ?? tag;
    let [hops, breaks] = [0, 0];
    while (hops < MAX_HOPS) {
      if (place === incarnation) {
        const next = movedTo(id);
        // Otherwise this node would have it.
        if (next === undefined) return undefined;
        hops++;
        place = this.#movedTo(id, next);
        continue;
      }
      const answer = await this.#askAt(place, id, type, fields);
      if (answer instanceof Unanswered) {
        if (answer.kind === 'gone') {
          const next = await this.#placeOf(id);
          if (next === undefined || next === place) throw interrupted();
          hops++;
          place = this.#movedTo(id, next);
        } else if (now() >= deadline) throw unreachable(answer);
        // If the process has died, the next connection is refused.
        else if (answer.kind !== 'broken' || breaks++ > 0) await pause(RETRY_MS);
        continue;
      }
      const [outcome, next] = answer.fields;
      if (outcome === 'none') return undefined;
      if (outcome !== 'moved') return answer;
      hops++;
      place = this.#movedTo(id, textField(next));
    }
    throw unreachable(undefined);
  }

  async #askAt(
    place: string,
    id: string,
    type: string,
    fields: readonly unknown[],
  ): Promise<RepliesAnswer | Unanswered> {
    if (this.#options.peers.isClosed) throw unreachable(undefined);
    let node: KnownNode | undefined;
    try {
      node = await this.#options.locate(place);
    } catch (cause) {
      throw unreachable(cause);
    }
    if (node === undefined) return new Unanswered('gone', 'the lease of the node is over');
    try {
      return await this.#ask(node, id, type, fields);
    } catch (error) {
      if (error instanceof Unanswered) return error;
      throw error;
    }
  }

  async #placeOf(id: string): Promise<string | undefined> {
    try {
      return await this.#options.placeOf(id);
    } catch (cause) {
      throw unreachable(cause);
    }
  }

  #ask(node: KnownNode, id: string, type: string, fields: readonly unknown[]): Promise<RepliesAnswer> {
    const link = this.#options.peers.linkTo(node);
    const watched = this.#watched.get(id);
    if (watched !== undefined && watched.link !== link) this.#tellWatched(id, watched, link);
    return link.ask(type, fields);
  }

  /** The answer comes after the reply is watched, so no change is missed. */
  #tellWatched(id: string, watched: Watched, link: RepliesLink): void {
    watched.link?.unwatch(id);
    watched.link = link;
    link.watch(id);
  }

  #movedTo(id: string, node: string): string {
    const watched = this.#watched.get(id);
    if (watched !== undefined) watched.place = node;
    return node;
  }

  #notify(watched: Watched | undefined): void {
    for (const onChange of [...(watched?.watchers ?? [])]) onChange();
  }
}

/** @throws {ProtocolError} `bad_message`. */
function readEntries({ bytes }: RepliesAnswer): ReplyEntry[] {
  const entries = readJson(bytes);
  if (Array.isArray(entries)) return entries.map(readEntry);
  throw malformed();
}

function interrupted(): ProtocolError {
  return new ProtocolError('interrupted', 'the node that had the reply is gone, and the reply with it');
}

function unreachable(cause: unknown): ProtocolError {
  return new ProtocolError('timeout', 'the node that has the reply does not answer', { cause });
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}
