import type { Commit, NumberedBody } from '../durable-session.js';
import type { AcceptedResume } from '../resume-token.js';

/** Shared by all commits that have none of a kind: most have a part of one reply, and nothing else. */
const NO_NUMBERS: readonly number[] = [];
const NO_MESSAGES: readonly NumberedBody[] = [];
const NO_MARKS: ReadonlyMap<string, number> = new Map();
const NOTHING_SAVED: ReadonlyMap<string, Uint8Array> = new Map();

/** The list with one more item; an empty one may be shared. */
function withItem<Item>(list: readonly Item[], item: Item): readonly Item[] {
  if (list.length === 0) return [item];
  (list as Item[]).push(item);
  return list;
}

/** As {@link withItem}. */
function withEntry<Key, Value>(
  map: ReadonlyMap<Key, Value>,
  key: Key,
  value: Value,
): ReadonlyMap<Key, Value> {
  if (map.size === 0) return new Map([[key, value]]);
  return (map as Map<Key, Value>).set(key, value);
}

class NextCommit implements Commit {
  number = 0;
  begin: Uint8Array | undefined = undefined;
  accept: AcceptedResume | undefined = undefined;
  handled: number | undefined = undefined;
  opened = NO_NUMBERS;
  settled = NO_NUMBERS;
  heard = NO_MARKS;
  state: Uint8Array | undefined = undefined;
  saved = NOTHING_SAVED;
  messages = NO_MESSAGES;
  confirmed: number | undefined = undefined;
  readonly streams = new Map<number, NextStreamCommit>();
  isBehind: boolean | undefined = undefined;
  ofFormerPages: number | undefined = undefined;
  /** Calls that wait for this commit, in order. */
  readonly waiting: (() => void)[] = [];
  /** Bytes of bodies. */
  bytes = 0;
  /** Something in it is worth a commit of its own. */
  isDue = false;
}

interface NextStreamCommit {
  attempt: number | undefined;
  isRepeatable: boolean;
  kept: string | undefined;
  readonly from: number;
  readonly parts: Uint8Array[];
  end: Uint8Array | undefined;
  isForgotten: boolean;
}

/** Collects the changes that a session records, one commit at a time, and the calls that wait for it. */
export class Recorder {
  #next: NextCommit | undefined;
  #present: NextCommit | undefined;
  #number = 0;
  #wake: (() => void) | undefined;

  /** Bytes of bodies that are not recorded yet. */
  get bytes(): number {
    return (this.#next?.bytes ?? 0) + (this.#present?.bytes ?? 0);
  }

  /** Everything that is worth a commit is recorded. */
  get isIdle(): boolean {
    return this.#present === undefined && this.#next?.isDue !== true;
  }

  /** An ACCEPT is not recorded yet. */
  get hasAccept(): boolean {
    return this.#present?.accept !== undefined || this.#next?.accept !== undefined;
  }

  // --- the driver

  /** Calls `wake` each time that {@link poll} has something to return, also now if it has. */
  whenDue(wake: () => void): void {
    this.#wake = wake;
    this.#wakeIfDue();
  }

  #wakeIfDue(): void {
    if (this.#present === undefined && this.#next?.isDue) this.#wake?.();
  }

  /**
   * The next commit; `undefined` while one is being recorded and if there is none.
   *
   * @param takesAll also a commit that only says what is not needed any more.
   */
  poll(takesAll: boolean): Commit | undefined {
    const next = this.#next;
    if (next === undefined || this.#present !== undefined || !(takesAll || next.isDue)) return undefined;
    this.#present = next;
    this.#next = undefined;
    next.number = ++this.#number;
    return next;
  }

  /** The commit that {@link poll} returned is recorded. Returns the calls that have waited for it, in order. */
  handleCommitted(): readonly (() => void)[] {
    const waiting = this.#present?.waiting ?? [];
    this.#present = undefined;
    this.#wakeIfDue();
    return waiting;
  }

  // --- the changes that are recorded

  begin(begin: Uint8Array): void {
    this.#due().begin = begin;
  }

  accept(accept: AcceptedResume): void {
    this.#due().accept = accept;
  }

  handled(count: number): void {
    this.#due().handled = count;
  }

  /** A message of the client for another one is among those that are handled, and is not. */
  opened(number: number): void {
    const next = this.#due();
    next.opened = withItem(next.opened, number);
  }

  /** It is. */
  settled(number: number): void {
    const next = this.#due();
    if (next.opened.includes(number)) next.opened = next.opened.filter((each) => each !== number);
    else next.settled = withItem(next.settled, number);
  }

  /** Another session has sent a message, or with 0 is forgotten. */
  heard(sender: string, mark: number): void {
    const next = this.#commit();
    next.heard = withEntry(next.heard, sender, mark);
  }

  state(state: Uint8Array): void {
    this.#due().state = state;
  }

  saved(name: string, value: Uint8Array): void {
    const next = this.#due();
    next.saved = withEntry(next.saved, name, value);
  }

  message(number: number, body: Uint8Array): void {
    const next = this.#due();
    next.messages = withItem(next.messages, { number, body });
    next.bytes += body.length;
  }

  behind(isBehind: boolean): void {
    this.#due().isBehind = isBehind;
  }

  ofFormerPages(count: number): void {
    this.#due().ofFormerPages = count;
  }

  confirmed(count: number): void {
    this.#commit().confirmed = count;
  }

  start(streamId: number, attempt: number, from: number): void {
    this.#stream(this.#due(), streamId, from).attempt = attempt;
  }

  repeatable(streamId: number, from: number): void {
    this.#stream(this.#due(), streamId, from).isRepeatable = true;
  }

  kept(streamId: number, id: string, from: number): void {
    this.#stream(this.#due(), streamId, from).kept = id;
  }

  part(streamId: number, number: number, body: Uint8Array): void {
    const next = this.#due();
    this.#stream(next, streamId, number).parts.push(body);
    next.bytes += body.length;
  }

  /** @param from the number of parts. */
  end(streamId: number, failure: Uint8Array, from: number): void {
    const next = this.#due();
    this.#stream(next, streamId, from).end = failure;
    next.bytes += failure.length;
  }

  forget(streamId: number): void {
    this.#stream(this.#commit(), streamId, 0).isForgotten = true;
  }

  /** Calls `then` when everything so far is recorded, at once if it is. */
  after(then: () => void): void {
    const commit = this.#next?.isDue ? this.#next : this.#present;
    if (commit === undefined) then();
    else commit.waiting.push(then);
  }

  #commit(): NextCommit {
    this.#next ??= new NextCommit();
    return this.#next;
  }

  #due(): NextCommit {
    const commit = this.#commit();
    if (commit.isDue) return commit;
    commit.isDue = true;
    this.#wakeIfDue();
    return commit;
  }

  #stream(commit: NextCommit, streamId: number, from: number): NextStreamCommit {
    let stream = commit.streams.get(streamId);
    if (stream === undefined) {
      stream = {
        ...{ attempt: undefined, isRepeatable: false, kept: undefined, from, parts: [] },
        ...{ end: undefined, isForgotten: false },
      };
      commit.streams.set(streamId, stream);
    }
    return stream;
  }
}
