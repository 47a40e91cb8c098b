import { createHash } from 'node:crypto';
import { isProtocolError, type Logger } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { KnownNode } from '../cluster/membership.js';
import { type RepliesLink, Unanswered } from '../cluster/replies/replies-link.js';
import { CHUNK_SIZE, encodeItems, entryFields } from '../cluster/replies/replies-message.js';
import type { NodeReplyLog, ReplyEntry } from './log.js';

export interface HandOverOptions {
  readonly log: NodeReplyLog;
  readonly logger: Logger;
  /** The other nodes that count as alive and do not drain. */
  readonly others: () => readonly KnownNode[];
  readonly linkTo: (node: KnownNode) => Pick<RepliesLink, 'ask'>;
  /** Another node has the reply. It is dropped here afterwards. */
  readonly onMoved: (id: string, node: string) => void;
}

/** How many replies were handed over, and how many no other node has taken. */
export interface HandedOver {
  readonly moved: number;
  readonly lost: number;
}

/** Replies that are under way at a time. */
const AT_A_TIME = 16;
/** Nodes that are asked to take a reply. */
const CANDIDATES = 3;
const RETRY_MS = 250;
/** Answers that another node may give as well, and that do not change soon. */
const BOUNDS: ReadonlySet<string> = new Set(['too_many_replies', 'over_budget', 'reply_too_large']);

const NOTHING = new Uint8Array(0);

/** Hands the replies of a node that drains over to other nodes, each when it has ended. */
export class HandOver {
  readonly #options: HandOverOptions;
  readonly #queue = new Set<string>();
  readonly #busy = new Set<string>();
  /** Replies that no other node has room for. */
  readonly #refused = new Set<string>();
  #workers = 0;
  #lastNumber = 0;
  #moved = 0;
  #isOver = false;
  #onSettled: (() => void) | undefined;

  constructor(options: HandOverOptions) {
    this.#options = options;
  }

  get counts(): HandedOver {
    return { moved: this.#moved, lost: this.#refused.size };
  }

  /** Hands over all replies that have ended. */
  start(): void {
    if (this.#isOver || this.#options.others().length === 0) return;
    for (const { id, end } of this.#options.log.all())
      if (end !== undefined && !this.#refused.has(id) && !this.#busy.has(id)) this.#queue.add(id);
    for (let work = this.#queue.size; work > 0 && this.#workers < AT_A_TIME; work--) {
      this.#workers++;
      void this.#work();
    }
  }

  /** Hands over what has ended by now, and logs what is left after a while. */
  async finish(timeoutMs: number): Promise<HandedOver> {
    this.start();
    if (this.#workers > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        this.#onSettled = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#isOver = true;
    for (const id of [...this.#queue, ...this.#busy]) this.#lose(id, 'there was no time left');
    return this.counts;
  }

  async #work(): Promise<void> {
    for (const id of this.#queue) {
      if (this.#isOver) break;
      this.#queue.delete(id);
      this.#busy.add(id);
      const isLater = await this.#handOver(id);
      if (isLater) await new Promise<void>((resolve) => void setTimeout(resolve, RETRY_MS));
      this.#busy.delete(id);
      if (isLater) this.#queue.add(id);
    }
    if (--this.#workers === 0) this.#onSettled?.();
  }

  /** @returns whether it is to be tried again. */
  async #handOver(id: string): Promise<boolean> {
    const { log, onMoved, others } = this.#options;
    let refusal: string | undefined;
    let isLater = false;
    const entry = await log.find({ id });
    if (entry?.end === undefined) return false;
    for (const node of candidates(others(), entry.owner)) {
      try {
        await this.#give(node, entry);
        onMoved(id, node.incarnation);
        this.#moved++;
        await log.drop(id);
        return false;
      } catch (error) {
        if (isProtocolError(error) && BOUNDS.has(error.code)) refusal = error.message;
        else isLater = true;
        if (!(error instanceof Unanswered)) this.#report(id, node, error);
      }
    }
    if (isLater) return true;
    this.#lose(id, refusal ?? 'no other node lives');
    return false;
  }

  /** @throws {ProtocolError} what the node answers. @throws {Unanswered} */
  async #give(node: KnownNode, entry: ReplyEntry): Promise<void> {
    const link = this.#options.linkTo(node);
    const number = ++this.#lastNumber;
    let type = 'give';
    let piece: Uint8Array | undefined;
    for await (const next of this.#pieces(entry)) {
      if (piece !== undefined) {
        await link.ask(type, [number, false], piece);
        type = 'piece';
      }
      piece = next;
    }
    await link.ask(type, [number, true], piece);
  }

  /** The items of a reply, in pieces of one message each. See `Arrival`. */
  async *#pieces(entry: ReplyEntry): AsyncGenerator<Uint8Array> {
    const { log } = this.#options;
    let waiting: Uint8Array = encodeItems([Buffer.from(JSON.stringify(entryFields(entry)))]);
    for (let after = 0; ; ) {
      const pieces = await log.read(entry.id, after);
      // Its time is over meanwhile.
      if (pieces === undefined) return;
      after += pieces.records.length;
      const isLast = pieces.end !== undefined;
      const endings = isLast ? [pieces.end?.failure ?? NOTHING, pieces.end?.metadata ?? NOTHING] : [];
      waiting = Buffer.concat([waiting, encodeItems([...pieces.records, ...endings])]);
      while (waiting.length > CHUNK_SIZE) {
        yield waiting.subarray(0, CHUNK_SIZE);
        waiting = waiting.subarray(CHUNK_SIZE);
      }
      if (isLast) break;
    }
    yield waiting;
  }

  #lose(id: string, why: string): void {
    this.#refused.add(id);
    const fields = { event: 'reply.lost', reply: id, why };
    this.#options.logger.warn(fields, 'no other node takes a kept reply; it is lost with this one');
  }

  #report(id: string, { incarnation }: KnownNode, error: unknown): void {
    const fields = { event: 'reply.refused', reply: id, node: incarnation, err: loggable(error) };
    this.#options.logger.debug(fields, 'a node does not take a kept reply');
  }
}

/** The nodes in the order in which they take replies of an owner, which is the same at every node. */
export function candidates(nodes: readonly KnownNode[], owner: string): readonly KnownNode[] {
  const weighted = nodes.map((node) => ({ node, weight: weightOf(node.incarnation, owner) }));
  return weighted
    .sort((a, b) => (a.weight < b.weight ? 1 : -1))
    .slice(0, CANDIDATES)
    .map(({ node }) => node);
}

function weightOf(incarnation: string, owner: string): string {
  return createHash('sha256').update(`${incarnation} ${owner}`).digest('hex');
}
