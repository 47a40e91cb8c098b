import { isProtocolError, type Logger, ProtocolError } from '@parlance/protocol';
import { encodeFailure, loggable } from '@parlance/protocol/internal';
import type { ServerWire, WireEvents } from '../../http/ws.js';
import type { ReplyEntry } from '../../replies/log.js';
import {
  countField,
  decodePeerMessage,
  encodePeerMessage,
  malformed,
  type PeerMessage,
  shortField,
  textField,
} from '../peer-message.js';
import type { NodesMemory } from '../relay/relay-quota.js';
import { CHUNK_SIZE, encodePieces, entryFields } from './replies-message.js';
import type { RepliesSource, ReplyArrival } from './replies-source.js';

export interface RepliesInletOptions {
  readonly source: RepliesSource;
  readonly logger: Logger;
  /** The memory of what other nodes hold here. @default only the connection has bounds */
  readonly memory?: NodesMemory | undefined;
  /** The connection is over. @param why `undefined` if this node has ended it. */
  readonly onOver: (why: unknown) => void;
}

/** Bytes that wait to be written; beyond them the other node's questions are not read. */
const MAX_UNWRITTEN = 1024 * 1024;
/** Questions that wait for that. The other node asks fewer at a time. */
const MAX_WAITING = 1_024;
/** Messages that wait, beyond which no more are read, and those that may have been read with them. */
const MAX_READ_AHEAD = 512;
const MAX_UNREAD = 16_384;
/** Questions that are being answered; each answer is some 16 KiB, or one long part. */
const MAX_RUNNING = 8;
/** Replies that the other node watches. */
const MAX_WATCHED = 100_000;
/** Bytes that watching a reply takes. */
const WATCH_CHARGE = 512;
/** Characters of an ID. */
const MAX_ID = 64;
/** Ticks of a second in which a reply that is handed over has to go on. */
const MAX_SILENT_TICKS = 10;
/** Lists that are read, and replies that are handed over, at a time. The oldest list gives way to the next one. */
const MAX_LISTS = 256;
const MAX_ARRIVALS = 64;
/** Entries of one piece of a list. */
export const LIST_PIECE = 100;

/** What is not answered. */
const TOLD: ReadonlySet<string> = new Set(['watch', 'unwatch', 'close']);
const NOTHING = new Uint8Array(0);

interface Watched {
  readonly unfollow: () => void;
  /** The other node knows of a change, and has not read since. */
  isTold: boolean;
}

/** A reply that is handed over. */
interface Arriving {
  readonly reply: ReplyArrival;
  /** Ticks since something of it has come. */
  age: number;
}

type List = AsyncIterator<ReplyEntry> | Iterator<ReplyEntry>;

/** The connection from another node, which reads the kept replies of this one, or hands over its own. */
export class RepliesInlet implements WireEvents {
  readonly #wire: ServerWire;
  readonly #options: RepliesInletOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #lists = new Map<number, List>();
  readonly #arrivals = new Map<number, Arriving>();
  #waiting: PeerMessage[] = [];
  /** Those of them that are answered. */
  #questions = 0;
  #running = 0;
  /** Answers wait to be written. */
  #isFull = false;
  #isHeld = false;
  #isPumping = false;
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
    for (const { reply } of this.#arrivals.values()) reply.abandon();
    this.#arrivals.clear();
    this.#lists.clear();
    this.#options.memory?.close();
    this.#options.onOver(why);
  }

  /** Gives up replies of which nothing comes any more. */
  handleTick(): void {
    for (const [number, arriving] of this.#arrivals) {
      if (arriving.age++ < MAX_SILENT_TICKS) continue;
      this.#arrivals.delete(number);
      arriving.reply.abandon();
    }
  }

  // --- as the listener of the wire

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    try {
      this.#await(decodePeerMessage(data));
      this.#pump();
    } catch (error) {
      this.end(error);
    }
  }

  /** @throws {ProtocolError} `rate_limited`. */
  #await(message: PeerMessage): void {
    if (!TOLD.has(message.type)) this.#questions++;
    this.#waiting.push(message);
    if (this.#questions > MAX_WAITING || this.#waiting.length > MAX_UNREAD)
      throw new ProtocolError('rate_limited', 'a node asks too much');
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
    this.#isFull = this.#wire.bufferedAmount > MAX_UNWRITTEN;
    this.#pump();
  }

  /** Handles what waits, in order, as long as there is room for the answers. */
  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    while (!this.#isFull && this.#running < MAX_RUNNING) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      if (!TOLD.has(next.type)) this.#questions--;
      this.#handle(next);
    }
    this.#isPumping = false;
    this.#pace();
  }

  /** Reads only while what is read can be answered soon. */
  #pace(): void {
    const isHeld = this.#isFull || this.#waiting.length > MAX_READ_AHEAD;
    if (this.#isOver || isHeld === this.#isHeld) return;
    this.#isHeld = isHeld;
    if (isHeld) this.#wire.hold();
    else this.#wire.unhold();
  }

  #handle({ type, fields, bytes }: PeerMessage): void {
    try {
      switch (type) {
        case 'watch':
          return this.#watch(shortField(fields[0], MAX_ID));
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
    this.#running++;
    const over = () => {
      this.#running--;
      this.#pump();
    };
    ask().then(
      ({ fields, bytes }) => {
        this.#send(ref, fields, bytes);
        over();
      },
      (error: unknown) => {
        if (!isProtocolError(error)) {
          const logged = { event: 'peer.failed', err: loggable(error) };
          this.#options.logger.error(logged, 'a question of another node about kept replies has failed');
        }
        this.#write('fail', [ref], encodeFailure(error));
        over();
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
    if (this.#options.memory?.isScarce)
      throw new ProtocolError('over_budget', 'other nodes watch too many replies');
    const watched: Watched = {
      isTold: false,
      unfollow: this.#options.source.follow(id, () => {
        if (watched.isTold) return;
        watched.isTold = true;
        this.#write('changed', [id]);
      }),
    };
    this.#watched.set(id, watched);
    this.#options.memory?.hold(this.#watched.size * WATCH_CHARGE);
  }

  /** The other node is about to know all changes so far. */
  #expectNews(id: string): void {
    const watched = this.#watched.get(id);
    if (watched !== undefined) watched.isTold = false;
  }

  #unwatch(id: string): void {
    this.#watched.get(id)?.unfollow();
    if (this.#watched.delete(id)) this.#options.memory?.hold(this.#watched.size * WATCH_CHARGE);
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
      this.#arrivals.set(number, { reply: source.receive(), age: 0 });
    }
    const arriving = this.#arrivals.get(number);
    if (arriving === undefined) throw new ProtocolError('cancelled', 'the reply was refused');
    const { reply: arrival } = arriving;
    arriving.age = 0;
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
    this.#isFull ||= this.#wire.bufferedAmount > MAX_UNWRITTEN;
    if (this.#isFull) this.#pace();
  }
}

interface Answer {
  readonly fields: readonly unknown[];
  readonly bytes: Uint8Array;
}
