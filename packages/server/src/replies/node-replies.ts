import { type Logger, ProtocolError } from '@parlance/protocol';
import type { Reservation } from '@parlance/protocol/internal';
import { readEntry, readJson } from '../cluster/replies/replies-message.js';
import type { RepliesSource, ReplyArrival } from '../cluster/replies/replies-source.js';
import { Arrival } from './arrival.js';
import { listable } from './list.js';
import type { NodeReplyLog, OwnedName, ReceivedReply, ReplyEntry } from './log.js';
import type { Owners, ProvenOwner } from './owners.js';
import type { Recording } from './recording.js';

export interface NodeRepliesOptions {
  readonly log: NodeReplyLog;
  readonly running: ReadonlyMap<string, Recording>;
  readonly owners: Owners;
  readonly logger: Logger;
  /** Bytes of one reply. */
  readonly maxReplyBytes: number;
  readonly isDraining: () => boolean;
  /** @throws {ProtocolError} `over_budget`. */
  readonly reserve: (size: number) => Reservation;
  /** Tells the cluster for a while that a reply is here. */
  readonly announce: (id: string, ttlMs: number) => Promise<void>;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/** The place of a reply is known for so much longer than the reply, in milliseconds: clocks differ. */
const PLACE_MARGIN_MS = 60_000;
/** What an item of a reply may take beside a part: metadata of its end. */
const ITEM_ROOM = 1024 * 1024;

/** The kept replies of this node, for other nodes. */
export class NodeReplies implements RepliesSource {
  readonly #options: NodeRepliesOptions;
  /** Replies that this node has handed over, and where they are. */
  readonly #moved = new Map<string, string>();
  /** Replies that arrive. */
  readonly #arriving = new Set<string>();

  constructor(options: NodeRepliesOptions) {
    this.#options = options;
  }

  find(target: { readonly id: string } | OwnedName) {
    return this.#options.log.find(target);
  }

  read(id: string, after: number) {
    return this.#options.log.read(id, after);
  }

  follow(id: string, onChange: () => void): () => void {
    const unwatch = this.#options.log.watch(id, onChange);
    const recording = this.#options.running.get(id);
    if (recording !== undefined) recording.followers++;
    return () => {
      unwatch();
      if (recording !== undefined) recording.followers--;
    };
  }

  stop(id: string, principal: string): void {
    this.#options.running.get(id)?.stop(new ProtocolError('cancelled', 'the reply was stopped'));
    this.#options.logger.debug({ event: 'reply.stopped', reply: id, principal }, 'a reply was stopped');
  }

  list(owner: string): AsyncIterable<ReplyEntry> {
    return listable(this.#options.log.list(owner), owner);
  }

  movedTo(id: string): string | undefined {
    return this.#moved.get(id);
  }

  /** This node has handed a reply over. */
  handleMoved(id: string, node: string): void {
    this.#moved.set(id, node);
  }

  prove(sessionId: string, token: string): ProvenOwner | undefined {
    return this.#options.owners.prove(sessionId, token);
  }

  receive(): ReplyArrival {
    const { maxReplyBytes, isDraining, reserve, announce, now, logger } = this.#options;
    if (isDraining()) throw new ProtocolError('draining', 'the node drains as well');
    let id: string | undefined;
    const arrival = new Arrival({
      maxItem: maxReplyBytes + ITEM_ROOM,
      reserve,
      readEntry: (bytes) => readEntry(readJson(bytes)),
      begin: (entry) => {
        const received = this.#begin(entry);
        if (received !== undefined) id = entry.id;
        return received;
      },
      announce: ({ id: reply, end, ttlMs }) =>
        announce(reply, Math.max(0, (end?.at ?? 0) + ttlMs - now()) + PLACE_MARGIN_MS),
      onTaken: (entry) => {
        this.#moved.delete(entry.id);
        logger.debug({ event: 'reply.taken', reply: entry.id }, 'a kept reply of another node is here now');
      },
    });
    const over = () => {
      if (id !== undefined) this.#arriving.delete(id);
    };
    return {
      push: (bytes) => arrival.push(bytes),
      finish: () => arrival.finish().finally(over),
      abandon: () => {
        arrival.abandon();
        over();
      },
    };
  }

  /** @throws {ProtocolError} */
  #begin({ parts: _parts, end, ...head }: ReplyEntry): ReceivedReply | undefined {
    const { log, isDraining } = this.#options;
    if (isDraining()) throw new ProtocolError('draining', 'the node drains as well');
    if (end === undefined) throw new ProtocolError('bad_message', 'the reply has not ended');
    if (log.has(head.id)) return undefined;
    if (this.#arriving.has(head.id)) throw new ProtocolError('timeout', 'the reply arrives already');
    const received = log.receive(head);
    this.#arriving.add(head.id);
    return received;
  }
}
