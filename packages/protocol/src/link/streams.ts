import { ProtocolError } from '../base/errors.js';
import { MAX_STREAM_ID } from './frame.js';

/**
 * The open streams of a session. The client opens odd IDs and the server even ones, each in increasing order
 * and never twice. A stream is open until the other end answers with response, end or error.
 */

export type Side = 'client' | 'server';

export interface OpenStream {
  readonly id: number;
  /** Opened by this end. */
  readonly local: boolean;
  /** The opener has cancelled: bodies that still arrive or would be sent are dropped. */
  cancelled: boolean;
  /** This end answered before the request was complete: the rest of it is dropped as it arrives. */
  answered: boolean;
  /** The peer has opened it with a tensor; no handler runs for that. */
  isTransfer: boolean;
  /** The request is answered with this error as soon as it is complete. */
  refusal: ProtocolError | undefined;
  /** The answer is relayed to another session. */
  readonly relayed: boolean;
  /** Only a cancel of its requester stops the handler. */
  runsToCompletion: true | undefined;
}

/** The largest IDs that the streams of a session have had, which is where a rebuilt link continues; 0 if none was opened. */
export interface LastStreams {
  readonly local: number;
  readonly remote: number;
}

/** The state of a {@link StreamTable}; the first two are `undefined` before the first of each. */
export type StreamTableState = readonly [
  streams: Map<number, OpenStream> | undefined,
  unwritten: Set<number> | undefined,
  openLocal: number,
  openRemote: number,
];

const NO_STREAMS: LastStreams = { local: 0, remote: 0 };

export class StreamTable {
  /** Created with the first stream, as are all maps of a session: most sessions are idle. */
  #streams: Map<number, OpenStream> | undefined;
  readonly #localParity: number;
  /** Streams that this end may have open at a time. */
  readonly maxLocal: number;
  readonly #maxRemote: number;
  #openLocal = 0;
  #openRemote = 0;
  /** Streams of the peer that are closed but whose last frames are not written yet. */
  #unwritten: Set<number> | undefined;
  #nextLocal: number;
  #lastRemote = 0;
  /** Streams of the peer that it may open although it has opened later ones. */
  #expected: Set<number> | undefined;

  /**
   * @param maxLocal streams that this end may have open at a time.
   * @param maxRemote streams that the peer may have open at a time.
   * @param last streams of the link that this one replaces. @default none
   */
  constructor(side: Side, maxLocal: number, maxRemote: number, last: LastStreams = NO_STREAMS) {
    this.#localParity = side === 'client' ? 1 : 0;
    this.#nextLocal = last.local === 0 ? 2 - this.#localParity : last.local + 2;
    this.#lastRemote = last.remote;
    this.maxLocal = maxLocal;
    this.#maxRemote = maxRemote;
  }

  /** Its state beside {@link last}, which the constructor restores. */
  snapshot(): StreamTableState {
    return [this.#streams, this.#unwritten, this.#openLocal, this.#openRemote];
  }

  restore(state: StreamTableState): void {
    [this.#streams, this.#unwritten, this.#openLocal, this.#openRemote] = state;
  }

  /**
   * Continues the streams of the link that this one replaces. None of them was opened by this one.
   *
   * @param expected streams of the peer whose requests it writes again.
   */
  adopt(streams: readonly OpenStream[], expected: Iterable<number> = []): void {
    for (const stream of streams) {
      this.#streams ??= new Map();
      this.#streams.set(stream.id, stream);
      if (stream.local) this.#openLocal++;
      else this.#openRemote++;
    }
    for (const id of expected) {
      this.#expected ??= new Set();
      this.#expected.add(id);
    }
  }

  /** A stream is open, or its last frames are not written, or the peer may still open it. */
  get isInUse(): boolean {
    return this.size > 0 || (this.#expected?.size ?? 0) > 0;
  }

  /** How many more streams this end may open now. */
  get free(): number {
    return this.maxLocal - this.#openLocal;
  }

  /** Open streams of both ends. */
  get size(): number {
    return this.#openLocal + this.#openRemote;
  }

  get last(): LastStreams {
    const local = this.#nextLocal - 2;
    return { local: Math.max(0, local), remote: this.#lastRemote };
  }

  /** @throws {ProtocolError} `too_many_streams`, or `session_lost` if the IDs are used up. */
  open(relayed = false): OpenStream {
    if (this.#openLocal >= this.maxLocal) {
      throw new ProtocolError(
        'too_many_streams',
        `the limit of ${this.maxLocal} open requests is reached; await some of them first`,
      );
    }
    if (this.#nextLocal > MAX_STREAM_ID) {
      throw new ProtocolError('session_lost', 'the session has used up its stream IDs; open a new one');
    }
    const id = this.#nextLocal;
    this.#nextLocal += 2;
    this.#openLocal++;
    return this.#add(id, true, relayed);
  }

  /** @throws {ProtocolError} `bad_frame` for wrong parity or a used ID, `too_many_streams`. */
  accept(id: number): OpenStream {
    if (id === 0 || this.isLocal(id)) {
      throw new ProtocolError('bad_frame', `stream ${id} is not the peer's to open`);
    }
    if (id <= this.#lastRemote && !this.#expected?.delete(id)) {
      throw new ProtocolError(
        'bad_frame',
        `stream ${id} was opened before; the last one was ${this.#lastRemote}`,
      );
    }
    if (this.#openRemote >= this.#maxRemote) {
      throw new ProtocolError(
        'too_many_streams',
        `stream ${id} exceeds the limit of ${this.#maxRemote} open streams`,
      );
    }
    this.#lastRemote = Math.max(this.#lastRemote, id);
    this.#openRemote++;
    return this.#add(id, false, false);
  }

  get(id: number): OpenStream | undefined {
    return this.#streams?.get(id);
  }

  /**
   * The stream on which this end has asked; `undefined` if it is closed, as late frames may arrive for it.
   *
   * @throws {ProtocolError} `bad_frame` if this end never opened it.
   */
  asked(id: number): OpenStream | undefined {
    if (!this.isLocal(id) || !this.wasOpened(id)) {
      throw new ProtocolError('bad_frame', `stream ${id} was not opened by this end`);
    }
    return this.get(id);
  }

  /** The stream of the peer, if it is open and this end has not answered yet. */
  answerable(id: number): OpenStream | undefined {
    const stream = this.get(id);
    return stream === undefined || stream.local || stream.answered ? undefined : stream;
  }

  close(id: number): void {
    const stream = this.#streams?.get(id);
    if (stream === undefined) return;
    this.#streams?.delete(id);
    if (stream.local) this.#openLocal--;
    else this.#openRemote--;
  }

  /**
   * Closes a stream of the peer whose last frames are not written yet. It keeps its slot until {@link
   * release}, which holds back a peer that asks and does not read the answers.
   */
  closeUnwritten(id: number): void {
    if (!this.#streams?.delete(id)) return;
    this.#unwritten ??= new Set();
    this.#unwritten.add(id);
  }

  /** The last frames of a closed stream are written. */
  release(id: number): void {
    if (this.#unwritten?.delete(id)) this.#openRemote--;
  }

  /** Whether `id` is one that this end opens. */
  isLocal(id: number): boolean {
    return id % 2 === this.#localParity;
  }

  /** Whether `id` was ever opened, by either end; a frame for such a stream may arrive late. */
  wasOpened(id: number): boolean {
    return id !== 0 && (this.isLocal(id) ? id < this.#nextLocal : id <= this.#lastRemote);
  }

  all(): Iterable<OpenStream> {
    return this.#streams?.values() ?? [];
  }

  #add(id: number, local: boolean, relayed: boolean): OpenStream {
    const stream = openStream(id, local, relayed);
    this.#streams ??= new Map();
    this.#streams.set(id, stream);
    return stream;
  }
}

export function openStream(id: number, local: boolean, relayed = false): OpenStream {
  return {
    id,
    local,
    cancelled: false,
    answered: false,
    isTransfer: false,
    refusal: undefined,
    relayed,
    runsToCompletion: undefined,
  };
}
