import type { DurableRecord, StreamRecord } from '../session/durable/record.js';
import type { Commit, NumberedBody } from '../session/durable-session.js';
import type { AcceptedResume } from '../session/resume-token.js';

/** A fault of an engine, or of a process that uses it. Each of them has to break histories. */
export const TAKE_OVER_FAULTS = [
  'commits are written without a look at the epoch',
  'an ACCEPT does not wait for its commit',
  'messages are handled before their effects are recorded',
  'starts are not recorded',
  'parts are told before they are recorded',
  'commits are written twice',
] as const;
export type TakeOverFault = (typeof TAKE_OVER_FAULTS)[number];

interface Kept {
  epoch: number;
  commit: number;
  begin: Uint8Array | undefined;
  accept: AcceptedResume | undefined;
  handled: number;
  state: Uint8Array | undefined;
  said: number;
  messages: NumberedBody[];
  isBehind: boolean;
  ofFormerPages: number;
  readonly streams: Map<number, KeptStream>;
}

interface KeptStream {
  attempt: number;
  isRepeatable: boolean;
  kept: string | undefined;
  readonly parts: Uint8Array[];
  end: Uint8Array | undefined;
}

/** An engine with one session. */
export interface TakeOverEngine {
  readonly epoch: number;
  /** Takes the session over if its epoch is still `epoch`. Returns the record. */
  claim(epoch: number): { readonly epoch: number; readonly record: DurableRecord } | undefined;
  /** Returns whether the commit is recorded; if not, another process has the session. */
  commit(epoch: number, commit: Commit): boolean;
  read(): DurableRecord;
}

/** One session in an engine that is always consistent. Delays, losses and repetitions are for its users. */
export class SimulatedEngine implements TakeOverEngine {
  readonly #fault: TakeOverFault | undefined;
  readonly #kept: Kept = {
    ...{ epoch: 1, commit: 0, begin: undefined, accept: undefined, handled: 0, state: undefined, said: 0 },
    ...{ messages: [], isBehind: false, ofFormerPages: 0, streams: new Map() },
  };

  constructor(fault: TakeOverFault | undefined) {
    this.#fault = fault;
  }

  get epoch(): number {
    return this.#kept.epoch;
  }

  claim(epoch: number): { readonly epoch: number; readonly record: DurableRecord } | undefined {
    const kept = this.#kept;
    if (kept.epoch !== epoch) return undefined;
    kept.epoch++;
    kept.commit = 0;
    return { epoch: kept.epoch, record: this.read() };
  }

  commit(epoch: number, commit: Commit): boolean {
    const kept = this.#kept;
    if (kept.epoch !== epoch && this.#fault !== 'commits are written without a look at the epoch')
      return false;
    if (commit.number <= kept.commit && this.#fault !== 'commits are written twice') return true;
    kept.commit = commit.number;
    kept.begin = commit.begin ?? kept.begin;
    kept.accept = commit.accept ?? kept.accept;
    kept.handled = commit.handled ?? kept.handled;
    kept.state = commit.state ?? kept.state;
    for (const message of commit.messages) {
      kept.messages.push(message);
      kept.said = message.number;
    }
    const confirmed = commit.confirmed ?? 0;
    kept.said = Math.max(kept.said, confirmed);
    kept.isBehind = commit.isBehind ?? kept.isBehind;
    kept.ofFormerPages = commit.ofFormerPages ?? kept.ofFormerPages;
    kept.messages = kept.messages.filter(({ number }) => number > confirmed);
    for (const [id, change] of commit.streams) {
      if (change.isForgotten) {
        kept.streams.delete(id);
        continue;
      }
      const isStart = change.attempt !== undefined;
      if (isStart && this.#fault === 'starts are not recorded' && change.parts.length === 0) continue;
      const stream = kept.streams.get(id) ?? {
        ...{ attempt: 0, isRepeatable: false, kept: undefined },
        ...{ parts: [], end: undefined },
      };
      kept.streams.set(id, stream);
      stream.attempt = change.attempt ?? stream.attempt;
      stream.isRepeatable ||= change.isRepeatable;
      stream.kept = change.kept ?? stream.kept;
      change.parts.forEach((part, i) => {
        stream.parts[change.from + i] = part;
      });
      stream.end = change.end ?? stream.end;
    }
    return true;
  }

  read(): DurableRecord {
    const { begin, accept, handled, state, said, messages, isBehind, ofFormerPages, streams } = this.#kept;
    if (begin === undefined || accept === undefined) throw new Error('nothing is recorded');
    const copies = [...streams].map(([id, stream]): [number, StreamRecord] => [
      id,
      { ...stream, parts: [...stream.parts] },
    ]);
    const rest = {
      open: [],
      heard: new Map(),
      saved: new Map(),
      messages: [...messages],
      isBehind,
      ofFormerPages,
      streams: new Map(copies),
    };
    return { begin, accept, handled, state, said, ...rest };
  }
}
