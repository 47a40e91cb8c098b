import type { DurableSession, Turn } from '@parlance/protocol/internal';

const TURN: Omit<Turn, 'number'> = {
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

/** A session whose turns say that one message more is handled. */
export class FakeSession implements DurableSession {
  /** In the next turn. */
  state: Uint8Array | undefined;
  handled = 0;
  readonly isBehind = false;
  recorded = 0;
  #turns = 0;
  #pending = false;
  #isPresent = false;
  #wake = () => {};
  hasLazy = false;
  /** What never changes, in the next turn. */
  begin: Uint8Array | undefined;
  /** Who may resume, in the next turn. */
  accept: Turn['accept'];

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
  pollTurn(takesAll = false): Turn | undefined {
    if (this.#isPresent || !(this.#pending || (takesAll && this.hasLazy))) return undefined;
    this.#pending = false;
    this.hasLazy = false;
    this.#isPresent = true;
    const { begin, accept, state } = this;
    this.begin = undefined;
    this.accept = undefined;
    this.state = undefined;
    return { ...TURN, number: ++this.#turns, handled: this.handled, begin, accept, state };
  }
  handleRecorded(): void {
    this.#isPresent = false;
    this.recorded = this.#turns;
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
  afterRecord(): void {}
}
