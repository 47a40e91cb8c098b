import type { MemoryBudget, SessionMemory } from '@parlance/protocol/internal';

/** Bounds on the messages that one node may have under way here, so that it leaves room for others. */
export interface LinkQuotaLimits {
  /** One-way messages that are not written. */
  readonly messages: number;
  /** Bytes of messages, requests and tensors that are not written, and of what is known of senders. */
  readonly bytes: number;
  /** Requests that are not over. */
  readonly requests: number;
}

export const LINK_QUOTA: LinkQuotaLimits = {
  messages: 100_000,
  bytes: 256 * 1024 * 1024,
  requests: 50_000,
};

/** The share of the memory that all other nodes have together, with all that they hand over or have under way here. */
export const NODES_SHARE = 'other nodes';

/** The share of one connection in it. */
export type NodesMemory = Pick<SessionMemory, 'hold' | 'isScarce' | 'close'>;

/** Counts what is under way on one connection, before it is taken. */
export class LinkQuota {
  readonly #limits: LinkQuotaLimits;
  readonly #memory: NodesMemory | undefined;
  #messages = 0;
  #bytes = 0;
  /** Bytes by request. */
  readonly #requests = new Map<number, number>();

  /** @param memory of the process. @default only the connection has bounds */
  constructor(limits = LINK_QUOTA, memory?: NodesMemory) {
    this.#limits = limits;
    this.#memory = memory;
  }

  /** Counts `bytes` more, or less if it is negative, which belong to the connection itself. */
  add(bytes: number): void {
    this.#bytes += bytes;
    this.#memory?.hold(this.#bytes);
  }

  /** The connection is over. */
  close(): void {
    this.#memory?.close();
  }

  /** Returns whether there is room for a message. */
  tryHoldMessage(bytes: number): boolean {
    if (this.#messages >= this.#limits.messages || !this.hasRoom(bytes)) return false;
    this.#messages++;
    this.add(bytes);
    return true;
  }

  releaseMessage(bytes: number): void {
    this.#messages--;
    this.add(-bytes);
  }

  /** Returns whether there is room for a new request. */
  tryHold(ref: number, bytes: number): boolean {
    if (this.#requests.size >= this.#limits.requests || !this.hasRoom(bytes)) return false;
    this.hold(ref, bytes);
    return true;
  }

  /** More of a request that was admitted. */
  hold(ref: number, bytes: number): void {
    this.add(bytes);
    this.#requests.set(ref, (this.#requests.get(ref) ?? 0) + bytes);
  }

  /** So much of a request is written. */
  release(ref: number, bytes: number): void {
    const held = this.#requests.get(ref);
    if (held === undefined) return;
    const part = Math.min(held, bytes);
    this.add(-part);
    this.#requests.set(ref, held - part);
  }

  /** The request is over. */
  forget(ref: number): void {
    this.add(-(this.#requests.get(ref) ?? 0));
    this.#requests.delete(ref);
  }

  hasRoom(bytes: number): boolean {
    return this.#bytes + bytes <= this.#limits.bytes && this.#memory?.isScarce !== true;
  }
}

/** The memory of one connection of another node. */
export function openNodesMemory(memory: MemoryBudget): NodesMemory {
  const share = memory.open(LINK_QUOTA.bytes);
  share.assign([NODES_SHARE]);
  return share;
}
