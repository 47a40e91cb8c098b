import type { AcceptedResume } from '../resume-token.js';
import type { NumberedBody, Turn } from '../session-record.js';

interface NextTurn {
  begin: Uint8Array | undefined;
  accept: AcceptedResume | undefined;
  handled: number | undefined;
  readonly opened: number[];
  readonly settled: number[];
  readonly heard: Map<string, number>;
  state: Uint8Array | undefined;
  readonly saved: Map<string, Uint8Array>;
  confirmed: number | undefined;
  readonly messages: NumberedBody[];
  readonly streams: Map<number, NextStreamTurn>;
  isBehind: boolean | undefined;
  ofFormerPages: number | undefined;
  /** What waits for this turn, in order. */
  readonly waiting: (() => void)[];
  /** Bytes of bodies. */
  bytes: number;
  /** Something in it is worth a turn of its own. */
  isDue: boolean;
}

interface NextStreamTurn {
  attempt: number | undefined;
  isRepeatable: boolean;
  kept: string | undefined;
  readonly from: number;
  readonly parts: Uint8Array[];
  end: Uint8Array | undefined;
  isForgotten: boolean;
}

/** Collects what a session puts on record, one turn at a time, and what waits for that. */
export class Recorder {
  #next: NextTurn | undefined;
  #present: NextTurn | undefined;
  #number = 0;

  /** Bytes of bodies that are not on record. */
  get bytes(): number {
    return (this.#next?.bytes ?? 0) + (this.#present?.bytes ?? 0);
  }

  /** Everything that is worth a turn is on record. */
  get isIdle(): boolean {
    return this.#present === undefined && this.#next?.isDue !== true;
  }

  /** An ACCEPT is not on record. */
  get hasAccept(): boolean {
    return this.#present?.accept !== undefined || this.#next?.accept !== undefined;
  }

  // --- the driver

  /**
   * The next turn; `undefined` while one is being recorded and if there is none.
   *
   * @param takesAll also a turn that only says what is not needed any more.
   */
  poll(takesAll: boolean): Turn | undefined {
    const next = this.#next;
    if (next === undefined || this.#present !== undefined || !(takesAll || next.isDue)) return undefined;
    this.#present = next;
    this.#next = undefined;
    const { waiting: _waiting, bytes: _bytes, isDue: _isDue, ...turn } = next;
    return { number: ++this.#number, ...turn };
  }

  /** The turn that {@link poll} returned is on record. Returns what has waited for it, in order. */
  handleRecorded(): readonly (() => void)[] {
    const waiting = this.#present?.waiting ?? [];
    this.#present = undefined;
    return waiting;
  }

  // --- what goes on record

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
    this.#due().opened.push(number);
  }

  /** It is. */
  settled(number: number): void {
    const next = this.#due();
    const at = next.opened.indexOf(number);
    if (at < 0) next.settled.push(number);
    else next.opened.splice(at, 1);
  }

  /** Another session has sent a message, or with 0 is forgotten. */
  heard(sender: string, mark: number): void {
    this.#turn().heard.set(sender, mark);
  }

  state(state: Uint8Array): void {
    this.#due().state = state;
  }

  saved(name: string, value: Uint8Array): void {
    this.#due().saved.set(name, value);
  }

  message(number: number, body: Uint8Array): void {
    const next = this.#due();
    next.messages.push({ number, body });
    next.bytes += body.length;
  }

  behind(isBehind: boolean): void {
    this.#due().isBehind = isBehind;
  }

  ofFormerPages(count: number): void {
    this.#due().ofFormerPages = count;
  }

  confirmed(count: number): void {
    this.#turn().confirmed = count;
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
    this.#stream(this.#turn(), streamId, 0).isForgotten = true;
  }

  /** Calls `then` when everything so far is on record, at once if it is. */
  after(then: () => void): void {
    const turn = this.#next?.isDue ? this.#next : this.#present;
    if (turn === undefined) then();
    else turn.waiting.push(then);
  }

  #turn(): NextTurn {
    this.#next ??= {
      ...{ begin: undefined, accept: undefined, handled: undefined, state: undefined, confirmed: undefined },
      ...{
        messages: [],
        streams: new Map(),
        isBehind: undefined,
        ofFormerPages: undefined,
        waiting: [],
        bytes: 0,
        isDue: false,
      },
      ...{ opened: [], settled: [], heard: new Map(), saved: new Map() },
    };
    return this.#next;
  }

  #due(): NextTurn {
    const turn = this.#turn();
    turn.isDue = true;
    return turn;
  }

  #stream(turn: NextTurn, streamId: number, from: number): NextStreamTurn {
    let stream = turn.streams.get(streamId);
    if (stream === undefined) {
      stream = {
        ...{ attempt: undefined, isRepeatable: false, kept: undefined, from, parts: [] },
        ...{ end: undefined, isForgotten: false },
      };
      turn.streams.set(streamId, stream);
    }
    return stream;
  }
}
