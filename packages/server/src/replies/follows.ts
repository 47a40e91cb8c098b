import { unlessAborted } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';

/** A request that follows a kept reply, and how far it has come. Another node can continue it between two parts. */
export interface FollowState {
  readonly stream: number;
  /** Of the reply. */
  readonly id: string;
  /** Parts of the reply that its session has, or had already when it began to follow. */
  readonly next: number;
  /** The session was told which reply it is. */
  readonly isTold: boolean;
  /** It has got parts, and with the first one the metadata of the reply. @default false */
  readonly hasParts?: boolean;
}

/** The replies that one session follows. */
export class Follows {
  readonly #session: ServerEndpoint;
  readonly #all = new Map<number, Follow>();

  constructor(session: ServerEndpoint) {
    this.#session = session;
  }

  begin(state: FollowState): Follow {
    const follow = new Follow(state, this.#session, () => {
      if (this.#all.get(follow.stream) === follow) this.#all.delete(follow.stream);
    });
    this.#all.set(state.stream, follow);
    return follow;
  }

  has(stream: number): boolean {
    return this.#all.has(stream);
  }

  get states(): readonly FollowState[] {
    return [...this.#all.values()];
  }
}

export class Follow implements FollowState {
  readonly stream: number;
  readonly id: string;
  readonly end: () => void;
  readonly #session: ServerEndpoint;
  next: number;
  isTold: boolean;
  hasParts: boolean;

  constructor(
    { stream, id, next, isTold, hasParts = false }: FollowState,
    session: ServerEndpoint,
    end: () => void,
  ) {
    this.stream = stream;
    this.id = id;
    this.next = next;
    this.isTold = isTold;
    this.hasParts = hasParts;
    this.#session = session;
    this.end = end;
  }

  /** Waits while the session is held. Returns whether it still wants the rest. */
  async mayGoOn(signal: AbortSignal): Promise<boolean> {
    while (this.#session.isHeld && !signal.aborted)
      await unlessAborted(this.#session.released(), signal).catch(() => {});
    return !signal.aborted;
  }

  /** The session gets another part. */
  advance(): void {
    this.next++;
    this.hasParts = true;
  }
}
