import { isProtocolError, type Logger, ProtocolError } from '@parlance/protocol';
import { encodeFailure, loggable } from '@parlance/protocol/internal';
import type { ServerWire, WireEvents } from '../http/ws.js';
import type { Awaitable, ReplyEntry, ReplyPieces } from '../replies/log.js';
import type { ProvenOwner } from '../replies/owners.js';
import { countField, decodePeerMessage, encodePeerMessage, malformed, textField } from './peer-message.js';
import { CHUNK_SIZE, encodePieces, entryFields } from './replies-message.js';

/** The kept replies of this node, as other nodes read them. */
export interface RepliesSource {
  find(
    target: { readonly id: string } | { readonly owner: string; readonly name: string },
  ): Awaitable<ReplyEntry | undefined>;
  read(id: string, after: number): Awaitable<ReplyPieces | undefined>;
  /** Calls `onChange` after each change. The reply counts as followed until the returned function is called. */
  follow(id: string, onChange: () => void): () => void;
  /** Stops the handler of a reply, if it runs. */
  stop(id: string, principal: string): void;
  list(owner: string): AsyncIterable<ReplyEntry> | Iterable<ReplyEntry>;
  /** The node to which a reply has moved. */
  movedTo(id: string): string | undefined;
  /** The owner that a session without a principal acts for, if the token is one of that session. */
  prove(sessionId: string, token: string): ProvenOwner | undefined;
  /** Another node hands a reply over. @throws {ProtocolError} `draining`. */
  receive(): ReplyArrival;
}

/** A reply that another node hands over. */
export interface ReplyArrival {
  /** Takes what comes next of its bytes. @throws {ProtocolError} the bounds of the log, `bad_message`. */
  push(bytes: Uint8Array): void;
  /** The reply is whole. @throws {ProtocolError} `bad_message`, and if it could not be announced. */
  finish(): Promise<void>;
  /** It will not be whole. */
  abandon(): void;
}

export interface RepliesInletOptions {
  readonly source: RepliesSource;
  readonly logger: Logger;
  /** The connection is over. @param why `undefined` if this node has ended it. */
  readonly onOver: (why: unknown) => void;
}

/** Bytes that wait to be written; beyond them the other node's questions are not read. */
const MAX_UNWRITTEN = 1024 * 1024;
/** Questions that wait for that. The other node asks fewer at a time. */
const MAX_WAITING = 1_024;
/** Replies that the other node watches. */
const MAX_WATCHED = 100_000;
/** Lists that are read, and replies that are handed over, at a time. The oldest list gives way to the next one. */
const MAX_LISTS = 256;
const MAX_ARRIVALS = 64;
/** Entries of one piece of a list. */
export const LIST_PIECE = 100;

const NOTHING = new Uint8Array(0);

interface Watched {
  readonly unfollow: () => void;
  /** The other node knows of a change, and has not read since. */
  isTold: boolean;
}

type List = AsyncIterator<ReplyEntry> | Iterator<ReplyEntry>;

/** The connection from another node, which reads the kept replies of this one, or hands over its own. */
export class RepliesInlet implements WireEvents {
  readonly #wire: ServerWire;
  readonly #options: RepliesInletOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #lists = new Map<number, List>();
  readonly #arrivals = new Map<number, ReplyArrival>();
  #waiting: (Uint8Array | string)[] = [];
  #isHeld = false;
  #isOver = false;

  constructor(wire: ServerWire, options: RepliesInletOptions) {
    this.#wire = wire;
    this.#options = options;
  }

  end(why?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#wire.terminate();
    this.#waiting = [];
    for (const { unfollow } of this.#watched.values()) unfollow();
    this.#watched.clear();
    for (const arrival of this.#arrivals.values()) arrival.abandon();
    this.#arrivals.clear();
    this.#lists.clear();
    this.#options.onOver(why);
  }

  // --- as the listener of the wire

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    if (!this.#isHeld) return this.#handle(data);
    if (this.#waiting.length >= MAX_WAITING)
      return this.end(new ProtocolError('rate_limited', 'a node asks too much'));
    this.#waiting.push(data);
  }
  onClose(code: number, reason: string): void {
    this.end(new ProtocolError('connection_failed', `closed with ${code} ${reason}`));
  }
  onFault(error: unknown): void {
    this.end(error);
  }
  onControl(): void {}
  onData(): void {}

  onDrain(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    while (!this.#isHeld) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      this.#handle(next);
    }
    if (!this.#isHeld && !this.#isOver) this.#wire.unhold();
  }

  #handle(data: Uint8Array | string): void {
    try {
      const { type, fields, bytes } = decodePeerMessage(data);
      switch (type) {
        case 'watch':
          return this.#watch(textField(fields[0]));
        case 'unwatch':
          return this.#unwatch(textField(fields[0]));
        case 'close':
          this.#lists.delete(countField(fields[0]));
          return;
      }
      const ref = countField(fields[0]);
      this.#answer(ref, this.#ask(type, fields.slice(1), bytes));
    } catch (error) {
      this.end(error);
    }
  }

  // --- questions

  /** @throws {ProtocolError} `bad_message`: the node does not know what it says. Everything else is its answer. */
  #ask(type: string, fields: readonly unknown[], bytes: Uint8Array): () => Promise<Answer> {
    const { source } = this.#options;
    switch (type) {
      case 'find': {
        const [first, second] = [textField(fields[0]), fields[1]];
        const target = second === undefined ? { id: first } : { owner: first, name: textField(second) };
        return async () => {
          this.#expectNews(first);
          return this.#found(first, await source.find(target));
        };
      }
      case 'read': {
        const [id, after] = [textField(fields[0]), countField(fields[1])];
        return async () => {
          this.#expectNews(id);
          const pieces = await source.read(id, after);
          if (pieces === undefined) return this.#missing(id);
          const encoded = encodePieces(pieces);
          return { fields: ['found', ...encoded.fields], bytes: encoded.bytes };
        };
      }
      case 'stop': {
        const [id, principal] = [textField(fields[0]), textField(fields[1])];
        return async () => {
          source.stop(id, principal);
          return { fields: [], bytes: NOTHING };
        };
      }
      case 'prove': {
        const [sessionId, token] = [textField(fields[0]), textField(fields[1])];
        return async () => {
          const owner = source.prove(sessionId, token);
          return { fields: [owner?.key ?? null, owner?.keptUntil ?? null], bytes: NOTHING };
        };
      }
      case 'list': {
        const [number, owner] = [countField(fields[0]), textField(fields[1])];
        if (this.#lists.has(number)) throw malformed();
        return () => this.#list(number, owner);
      }
      case 'next': {
        const number = countField(fields[0]);
        return () => this.#next(number);
      }
      case 'give':
      case 'piece': {
        const [number, isLast] = [countField(fields[0]), fields[1] === true];
        if (type === 'give' && this.#arrivals.has(number)) throw malformed();
        return () => this.#receive(type, number, isLast, bytes);
      }
      default:
        throw malformed();
    }
  }

  #answer(ref: number, ask: () => Promise<Answer>): void {
    ask().then(
      ({ fields, bytes }) => this.#send(ref, fields, bytes),
      (error: unknown) => {
        if (!isProtocolError(error)) {
          const logged = { event: 'peer.failed', err: loggable(error) };
          this.#options.logger.error(logged, 'a question of another node about kept replies has failed');
        }
        this.#write('fail', [ref], encodeFailure(error));
      },
    );
  }

  #found(id: string, entry: ReplyEntry | undefined): Answer {
    if (entry === undefined) return this.#missing(id);
    return { fields: ['found'], bytes: Buffer.from(JSON.stringify(entryFields(entry))) };
  }

  #missing(id: string): Answer {
    const node = this.#options.source.movedTo(id);
    return { fields: node === undefined ? ['none'] : ['moved', node], bytes: NOTHING };
  }

  // --- changes

  #watch(id: string): void {
    if (this.#watched.has(id)) return;
    if (this.#watched.size >= MAX_WATCHED) throw malformed();
    const watched: Watched = {
      isTold: false,
      unfollow: this.#options.source.follow(id, () => {
        if (watched.isTold) return;
        watched.isTold = true;
        this.#write('changed', [id]);
      }),
    };
    this.#watched.set(id, watched);
  }

  /** The other node is about to know all changes so far. */
  #expectNews(id: string): void {
    const watched = this.#watched.get(id);
    if (watched !== undefined) watched.isTold = false;
  }

  #unwatch(id: string): void {
    this.#watched.get(id)?.unfollow();
    this.#watched.delete(id);
  }

  // --- lists

  async #list(number: number, owner: string): Promise<Answer> {
    const entries = this.#options.source.list(owner);
    const iterator =
      Symbol.asyncIterator in entries ? entries[Symbol.asyncIterator]() : entries[Symbol.iterator]();
    this.#lists.set(number, iterator);
    if (this.#lists.size > MAX_LISTS) this.#lists.delete(this.#lists.keys().next().value as number);
    return await this.#next(number);
  }

  async #next(number: number): Promise<Answer> {
    const list = this.#lists.get(number);
    if (list === undefined) throw new ProtocolError('over_budget', 'too many lists are read at a time');
    const entries: unknown[] = [];
    let isOver = false;
    while (entries.length < LIST_PIECE && !isOver) {
      const { done, value } = await list.next();
      if (done === true) isOver = true;
      else entries.push(entryFields(value));
    }
    if (isOver) this.#lists.delete(number);
    return { fields: [isOver], bytes: Buffer.from(JSON.stringify(entries)) };
  }

  // --- replies that are handed over

  async #receive(
    type: 'give' | 'piece',
    number: number,
    isLast: boolean,
    bytes: Uint8Array,
  ): Promise<Answer> {
    const { source } = this.#options;
    if (type === 'give') {
      if (this.#arrivals.size >= MAX_ARRIVALS)
        throw new ProtocolError('over_budget', 'too many replies are handed over at a time');
      this.#arrivals.set(number, source.receive());
    }
    const arrival = this.#arrivals.get(number);
    if (arrival === undefined) throw new ProtocolError('cancelled', 'the reply was refused');
    try {
      arrival.push(bytes);
      if (!isLast) return { fields: [], bytes: NOTHING };
      this.#arrivals.delete(number);
      await arrival.finish();
      return { fields: [], bytes: NOTHING };
    } catch (error) {
      this.#arrivals.delete(number);
      arrival.abandon();
      throw error;
    }
  }

  // --- writing

  #send(ref: number, fields: readonly unknown[], bytes: Uint8Array): void {
    let offset = 0;
    while (bytes.length - offset > CHUNK_SIZE) {
      const chunk = bytes.subarray(offset, offset + CHUNK_SIZE);
      offset += chunk.length;
      this.#write('more', [ref, bytes.length - offset], chunk);
    }
    this.#write('done', [ref, ...fields], bytes.subarray(offset));
  }

  #write(type: string, fields: readonly unknown[], bytes: Uint8Array = NOTHING): void {
    if (this.#isOver) return;
    this.#wire.send(encodePeerMessage(type, fields, bytes));
    if (this.#isHeld || this.#wire.bufferedAmount <= MAX_UNWRITTEN) return;
    this.#isHeld = true;
    this.#wire.hold();
  }
}

interface Answer {
  readonly fields: readonly unknown[];
  readonly bytes: Uint8Array;
}
