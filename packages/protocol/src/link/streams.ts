import { ProtocolError } from '../base/errors.js';
import { MAX_STREAM_ID } from './frame.js';

/**
 * Which streams of a session are open. The client opens odd IDs and the server even ones, each in
 * increasing order and never twice; a stream belongs to its opener until the far end has answered
 * with response, end or error.
 */

export type Side = 'client' | 'server';

export interface OpenStream {
  readonly id: number;
  /** Opened by this end. */
  readonly local: boolean;
  /** The opener said cancel; what still arrives or would be sent is dropped. */
  cancelled: boolean;
  /** The answer was given before the request was whole; what still arrives of it is dropped. */
  answered: boolean;
  /** Opened with a tensor, for which no handler runs. */
  isTransfer: boolean;
  /** The answer goes on to somebody else. */
  readonly relayed: boolean;
}

export class StreamTable {
  /** Made with the first stream, as are all maps of a session: most of the time most sessions wait. */
  #streams: Map<number, OpenStream> | undefined;
  readonly #localParity: number;
  readonly #maxLocal: number;
  readonly #maxRemote: number;
  #openLocal = 0;
  #openRemote = 0;
  /** Streams of the peer that are closed and whose last frames are not written yet. */
  #unwritten: Set<number> | undefined;
  #nextLocal: number;
  #lastRemote = 0;

  /** @param maxLocal @param maxRemote open streams that this end and its peer may have at a time. */
  constructor(side: Side, maxLocal: number, maxRemote: number) {
    this.#localParity = side === 'client' ? 1 : 0;
    this.#nextLocal = side === 'client' ? 1 : 2;
    this.#maxLocal = maxLocal;
    this.#maxRemote = maxRemote;
  }

  /** Open streams of both ends. */
  get size(): number {
    return this.#openLocal + this.#openRemote;
  }

  /** @throws {ProtocolError} `too_many_streams`, or `session_lost` where IDs are used up. */
  open(relayed = false): OpenStream {
    if (this.#openLocal >= this.#maxLocal) {
      throw new ProtocolError(
        'too_many_streams',
        `${this.#openLocal} requests are open; the limit of ${this.#maxLocal} leaves no room, await some of them`,
      );
    }
    if (this.#nextLocal > MAX_STREAM_ID) {
      throw new ProtocolError('session_lost', 'the session has used up its stream IDs; connect anew');
    }
    const stream: OpenStream = {
      id: this.#nextLocal,
      local: true,
      cancelled: false,
      answered: false,
      isTransfer: false,
      relayed,
    };
    this.#nextLocal += 2;
    this.#openLocal++;
    return this.#add(stream);
  }

  /** @throws {ProtocolError} `bad_frame` for wrong parity or a used ID, `too_many_streams`. */
  accept(id: number): OpenStream {
    if (id === 0 || this.isLocal(id)) {
      throw new ProtocolError('bad_frame', `stream ${id} is not the peer's to open`);
    }
    if (id <= this.#lastRemote) {
      throw new ProtocolError(
        'bad_frame',
        `stream ${id} was opened already, the last one was ${this.#lastRemote}`,
      );
    }
    if (this.#openRemote >= this.#maxRemote) {
      throw new ProtocolError(
        'too_many_streams',
        `stream ${id} is one more than the ${this.#maxRemote} that may be open`,
      );
    }
    this.#lastRemote = id;
    const stream: OpenStream = {
      id,
      local: false,
      cancelled: false,
      answered: false,
      isTransfer: false,
      relayed: false,
    };
    this.#openRemote++;
    return this.#add(stream);
  }

  get(id: number): OpenStream | undefined {
    return this.#streams?.get(id);
  }

  close(id: number): void {
    const stream = this.#streams?.get(id);
    if (stream === undefined) return;
    this.#streams?.delete(id);
    if (stream.local) this.#openLocal--;
    else this.#openRemote--;
  }

  /**
   * Closes a stream of the peer whose last frames are not written yet: it keeps its slot until
   * {@link release}, so that a peer that asks and does not read what it is answered is held back.
   */
  closeBehind(id: number): void {
    if (!this.#streams?.delete(id)) return;
    this.#unwritten ??= new Set();
    this.#unwritten.add(id);
  }

  /** Everything of a stream is written. */
  release(id: number): void {
    if (this.#unwritten?.delete(id)) this.#openRemote--;
  }

  /** Whether `id` is one of those that this end opens. */
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

  #add(stream: OpenStream): OpenStream {
    this.#streams ??= new Map();
    this.#streams.set(stream.id, stream);
    return stream;
  }
}
