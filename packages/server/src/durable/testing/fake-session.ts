import type { Commit, DurableSession } from '@parlance/protocol/internal';

const COMMIT: Omit<Commit, 'number'> = {
  ...{ begin: undefined, accept: undefined, handled: undefined, state: undefined },
  ...{
    messages: [],
    confirmed: undefined,
    streams: new Map(),
    isBehind: undefined,
    ofFormerPages: undefined,
  },
  ...{ opened: [], settled: [], heard: new Map(), saved: new Map() },
};

/** A session whose commits say that one message more is handled. */
export class FakeSession implements DurableSession {
  /** In the next commit. */
  state: Uint8Array | undefined;
  handled = 0;
  readonly isBehind = false;
  recorded = 0;
  #commits = 0;
  #pending = false;
  #isPresent = false;
  #wake = () => {};
  hasLazy = false;
  /** State that never changes, in the next commit. */
  begin: Uint8Array | undefined;
  /** The tokens that may resume the session, in the next commit. */
  accept: Commit['accept'];

  get isIdle(): boolean {
    return !this.#pending && !this.#isPresent;
  }
  whenDue(wake: () => void): void {
    this.#wake = wake;
    this.#wakeIfDue();
  }
  #wakeIfDue(): void {
    if (this.#pending && !this.#isPresent) this.#wake();
  }
  handle(): void {
    this.handled++;
    if (this.#pending) return;
    this.#pending = true;
    this.#wakeIfDue();
  }
  pollCommit(takesAll = false): Commit | undefined {
    if (this.#isPresent || !(this.#pending || (takesAll && this.hasLazy))) return undefined;
    this.#pending = false;
    this.hasLazy = false;
    this.#isPresent = true;
    const { begin, accept, state } = this;
    this.begin = undefined;
    this.accept = undefined;
    this.state = undefined;
    return { ...COMMIT, number: ++this.#commits, handled: this.handled, begin, accept, state };
  }
  handleCommitted(): void {
    this.#isPresent = false;
    this.recorded = this.#commits;
    this.#wakeIfDue();
  }
  isOpen(): boolean {
    return false;
  }
  settle(): void {}
  readonly heard = new Map<string, number>();
  hear(): void {}
  setState(): void {}
  save(): void {}
  commit(): void {}
  repeat(): void {}
  keep(): void {}
  afterCommit(): void {}
}
