import { ProtocolError } from '@parlance/protocol';
import { MemoryBudget } from '@parlance/protocol/internal';
import { Largest } from './largest.js';
import type { EngineBounds } from './logs.js';

/** The memory that the replies of one owner take. */
export interface Account<Reply> {
  readonly owner: string;
  readonly replies: Set<Reply>;
  /** Replies that may be dropped for others: those that were read to the end, and the others; the oldest first. */
  readonly read: Set<Reply>;
  readonly unread: Set<Reply>;
  /** Of memory. */
  bytes: number;
}

/** A reply, and what it takes. */
export interface Charged<Reply> {
  readonly account: Account<Reply>;
  memory: number;
  /** It has ended, and its requester needs it no more. */
  isFree: boolean;
}

/**
 * Shares the memory of kept replies between their owners. Replies that cannot be dropped, such as those that are being written,
 * share it as sessions do: see {@link MemoryBudget}. The others take what is left. If there is no room, those of the owner
 * that holds most go first, so that no owner can take the room of one that holds less.
 */
export class Shares<Reply extends Charged<Reply>> {
  readonly accounts = new Map<string, Account<Reply>>();
  readonly #maxBytes: number;
  readonly #drop: (reply: Reply) => void;
  /** The memory that cannot be freed by dropping replies. */
  readonly #held: MemoryBudget;
  /** Owners that have something to drop. */
  readonly #droppable = new Largest<Account<Reply>>();
  #bytes = 0;

  /**
   * @param maxBytes of all owners.
   * @param drop forgets a reply, and gives back what it takes.
   */
  constructor(maxBytes: number, drop: (reply: Reply) => void) {
    this.#maxBytes = maxBytes;
    this.#drop = drop;
    this.#held = new MemoryBudget(maxBytes);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** An account of an owner, which counts once it has a reply. */
  accountOf(owner: string): Account<Reply> {
    return (
      this.accounts.get(owner) ?? { owner, replies: new Set(), read: new Set(), unread: new Set(), bytes: 0 }
    );
  }

  /** @throws {ProtocolError} `too_many_replies`, `over_budget`, `reply_too_large`; nothing is added then. */
  add(reply: Reply, size: number, bounds: EngineBounds): void {
    const { account } = reply;
    const { maxReplies } = bounds;
    while (account.replies.size >= maxReplies) {
      if (!this.#dropOldest(account))
        throw new ProtocolError('too_many_replies', `${maxReplies} replies of this principal are being kept`);
    }
    this.#held.join(account.owner);
    try {
      this.charge(reply, size, bounds);
    } catch (error) {
      this.#held.leave(account.owner);
      throw error;
    }
    // The account may have lost its last reply to make room.
    this.accounts.set(account.owner, account);
    account.replies.add(reply);
  }

  remove(reply: Reply): void {
    const { account } = reply;
    account.read.delete(reply);
    account.unread.delete(reply);
    this.discharge(reply, reply.memory);
    account.replies.delete(reply);
    this.#held.leave(account.owner);
    if (account.read.size + account.unread.size === 0) this.#droppable.delete(account);
    if (account.replies.size === 0) this.accounts.delete(account.owner);
  }

  /** It may be dropped for others from now on. */
  free(reply: Reply, isRead: boolean): void {
    const { account, memory } = reply;
    if (!reply.isFree) this.#held.add([account.owner], -memory);
    reply.isFree = true;
    if (isRead) account.unread.delete(reply);
    if (!account.read.has(reply)) (isRead ? account.read : account.unread).add(reply);
    this.#droppable.add(account);
  }

  /** @throws {ProtocolError} `reply_too_large`, `over_budget`. */
  charge(reply: Reply, size: number, { maxReplyBytes, maxOwnerBytes }: EngineBounds): void {
    if (size === 0) return;
    const { account } = reply;
    if (reply.memory + size > maxReplyBytes)
      throw new ProtocolError('reply_too_large', `a kept reply may take ${maxReplyBytes} bytes of memory`);
    if (!this.#held.hasRoom([account.owner], size)) throw full();
    while (account.bytes + size > maxOwnerBytes)
      if (!this.#dropOldest(account))
        throw new ProtocolError(
          'over_budget',
          `the replies of one principal may take ${maxOwnerBytes} bytes`,
        );
    while (this.#bytes + size > this.#maxBytes) {
      const largest = this.#droppable.get();
      const isMore = largest !== undefined && largest.bytes >= account.bytes + size;
      if (!this.#dropOldest(isMore ? largest : account)) throw full();
    }
    this.discharge(reply, -size);
  }

  discharge(reply: Reply, size: number): void {
    const { account } = reply;
    reply.memory -= size;
    account.bytes -= size;
    this.#bytes -= size;
    if (!reply.isFree) this.#held.add([account.owner], -size);
    this.#droppable.update(account);
  }

  #dropOldest({ read, unread }: Account<Reply>): boolean {
    const [oldest] = read.size > 0 ? read : unread;
    if (oldest !== undefined) this.#drop(oldest);
    return oldest !== undefined;
  }
}

function full(): ProtocolError {
  return new ProtocolError('over_budget', 'the server has no memory for more kept replies; try again later');
}
