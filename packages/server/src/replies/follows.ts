/** A request that follows a kept reply, and how far it has come. Another node can go on with it between two parts. */
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

/** What one session follows. */
export class Follows {
  readonly #all = new Map<number, Follow>();
  #isHeld = false;

  begin(state: FollowState): Follow {
    const follow = new Follow(state, this);
    this.#all.set(state.stream, follow);
    return follow;
  }

  end(follow: Follow): void {
    if (this.#all.get(follow.stream) === follow) this.#all.delete(follow.stream);
  }

  has(stream: number): boolean {
    return this.#all.has(stream);
  }

  get states(): readonly FollowState[] {
    return [...this.#all.values()];
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Nothing more is given to the session, until {@link release}. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    for (const follow of this.#all.values()) follow.wake();
  }
}

export class Follow implements FollowState {
  readonly stream: number;
  readonly id: string;
  readonly #follows: Follows;
  next: number;
  isTold: boolean;
  hasParts: boolean;
  wake: () => void = () => {};

  constructor({ stream, id, next, isTold, hasParts = false }: FollowState, follows: Follows) {
    this.stream = stream;
    this.id = id;
    this.next = next;
    this.isTold = isTold;
    this.hasParts = hasParts;
    this.#follows = follows;
  }

  /** Waits while the session is held. Returns whether it still wants the rest. */
  async mayGoOn(signal: AbortSignal): Promise<boolean> {
    while (this.#follows.isHeld && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    return !signal.aborted;
  }

  /** The session gets another part. */
  advance(): void {
    this.next++;
    this.hasParts = true;
  }

  end(): void {
    this.#follows.end(this);
  }
}
