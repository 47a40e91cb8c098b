import { Fifo } from '../base/fifo.js';
import { BodyCodec, BodyCounts, type CodedBody } from '../codec/body.js';
import type { AliasWriter } from './addressing.js';
import { expansionOf, type LinkContext } from './context-coding.js';
import { ControlQueue } from './control-queue.js';
import { BODY_CHARGE, type SendCredit } from './credit.js';
import {
  bodyFrameLength,
  bodyHeadLength,
  decodeLinkFrame,
  LinkFlag,
  LinkKind,
  type OutgoingBody,
  writeBodyFrame,
} from './frame.js';
import type { Pacer } from './rates.js';
import { Lane, type LaneItem, type UnwrittenBody } from './send-queue.js';
import { SourcedBody } from './streamed-body.js';
import { WrittenFrames } from './written-frames.js';

/**
 * What waits to be written, and in which order: control first, then streams in turn, each one frame
 * at a time, large bodies in fragments, so that nothing waits behind a tensor. Order is kept within a
 * stream, not between streams.
 *
 * The driver pulls one frame whenever the socket has room, so a frame is built no earlier than it is
 * written. A stream without credit for its next frame is passed over until its peer grants more, and so is
 * one whose next body would begin before the peer's rate of messages lets it.
 */

/** Largest piece of a body in one frame, in bytes. */
export const MAX_FRAGMENT_SIZE = 64 * 1024;
/** The same of a body that comes from a source. */
export const MAX_PIECE_SIZE = 256 * 1024;

/** A body that waits takes this much beside its bytes: itself, its place in the queue, the codings that it may get. */
const ITEM_MEMORY = 512;
/** A body in context names its base within its first bytes, and none is so short that it needs no credit. */
const MIN_FIRST_PIECE = 16;

export interface OutboxListener {
  handleDrained(streamId: number): void;
}

export interface Outbox {
  /** What the peer takes; without it nothing is held back. */
  credit: SendCredit | undefined;
  /** How fast it may be sent; without it nothing waits. */
  pace: Pacer | undefined;
  /** Codes bodies that wait for their first frame with that. */
  context: LinkContext | undefined;
  /** Numbers for the names of agents, where addressing was agreed. */
  aliases: AliasWriter | undefined;
  /** Told when everything of a stream that waited is written. */
  listener: OutboxListener | undefined;
  /** Bytes that wait, control frames excluded. */
  readonly queuedBytes: number;
  /** What waits takes about so many bytes of memory, the objects around it included. */
  readonly memory: number;
  /** Bodies that were written to their end; `undefined` before the first. */
  readonly sentBodies: BodyCounts | undefined;
  /** Counted link frames handed out since the session began. */
  readonly framesWritten: number;
  /** Nothing waits but for the peer: for credit, for its rates or for what it confirms. */
  readonly isIdle: boolean;
  /** Streams that wait for credit. */
  readonly blockedStreams: number;
  /** Something waits for the rate's sake. */
  readonly isPaced: boolean;
  /** Anything but control waits, for whatever reason. */
  readonly hasBodies: boolean;
  /** Control frames that wait. They are answers to what the peer sends, and wait where it does not read. */
  readonly controlFrames: number;
  /** Frames that the peer has confirmed are forgotten; only then can anything be replayed. */
  confirm(count: number): void;
  /** The connection is gone: nothing but control frames is handed out, and those that wait are dropped. */
  pause(): void;
  /** Hands out everything from frame `count` on again, the same bytes in the same order, then goes on. */
  replayFrom(count: number): void;
  /** Keep written frames until they are confirmed. */
  retain: boolean;
  /**
   * Bytes of frames that may be kept. Beyond them nothing more is written until the peer confirms some: one
   * that reads and never acknowledges would make this end keep everything.
   */
  maxRetained: number;
  /** Frames that were written and not confirmed, where they are kept. */
  unconfirmed(): Iterable<Uint8Array>;
  /** Bodies that were not written to their end. */
  unwritten(): UnwrittenBody[];
  /** A frame outside every stream, written before all others. */
  pushControl(frame: Uint8Array | string): void;
  /** An acknowledgement or a credit: dropped without a connection, as all are stated anew on the next. */
  pushStatement(frame: Uint8Array): void;
  /** A counted frame outside every stream, such as cancel. */
  pushSignal(frame: Uint8Array): void;
  pushBody(body: OutgoingBody): void;
  /** A body that has been fed its first bytes and is fed the others by {@link feed}. */
  pushSource(body: SourcedBody): void;
  /** The next bytes, at least one, of the body that `streamId` writes; nothing where it was dropped. */
  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void;
  /** A frame behind all bodies of its stream; made when it is written where it depends on them. */
  pushBehind(streamId: number, frame: Uint8Array | (() => Uint8Array)): void;
  /** A message that is a frame of its own, without a link. */
  pushBare(frame: Uint8Array | string, body: CodedBody): void;
  /** Forgets what a stream has not written yet; `false` where nothing of it was ever written. */
  drop(streamId: number): boolean;
  /** Whether anything of `streamId` waits. */
  has(streamId: number): boolean;
  /** Bytes of `streamId` that wait. */
  queuedOn(streamId: number): number;
  /** What waits on `streamId` takes about so many bytes of memory, the objects around it included. */
  memoryOf(streamId: number): number;
  /** Forgets the rest of every body that comes from a source. */
  dropSources(): void;
  /** The peer grants `streamId` more. */
  unblock(streamId: number): void;
  /** Forgets everything that waits, control frames excluded. */
  clear(): void;
  /** Keeps no memory in stock for frames to come. */
  releaseMemory(): void;
  /** The next frame for the socket. @param now clock reading, for the pace. @default 0 */
  next(now?: number): Uint8Array | string | undefined;
}

export function createOutbox(): Outbox {
  return new LaneOutbox();
}

class LaneOutbox implements Outbox {
  queuedBytes = 0;
  blockedStreams = 0;
  sentBodies: BodyCounts | undefined;
  /** Bodies and frames that wait on all lanes. */
  #items = 0;
  credit: SendCredit | undefined;
  pace: Pacer | undefined;
  context: LinkContext | undefined;
  aliases: AliasWriter | undefined;
  listener: OutboxListener | undefined;
  readonly #written = new WrittenFrames();
  readonly #control = new ControlQueue();
  #isPaused = false;
  /** Of one-way messages, which come back; and of streams, while anything of them waits. */
  #messages: Lane | undefined;
  #lanes: Map<number, Lane> | undefined;
  /** Lanes with something to write, in order of turn. */
  readonly #turns = new Fifo<Lane>();
  /** Lanes that wait to begin a body, in order of turn. */
  #paced: Lane[] | undefined;
  /** It has waited to begin, and is the next that may. */
  #released: Lane | undefined;
  /** The last frame has used up the rate of bytes. */
  #isSlowed = false;

  get isPaced(): boolean {
    return this.#paced !== undefined || (this.#isSlowed && this.#turns.size > 0);
  }

  get hasBodies(): boolean {
    return this.#messages?.isEmpty === false || (this.#lanes?.size ?? 0) > 0;
  }

  get controlFrames(): number {
    return this.#control.size;
  }

  get framesWritten(): number {
    return this.#written.count;
  }
  get retain(): boolean {
    return this.#written.retain;
  }
  set retain(retain: boolean) {
    this.#written.retain = retain;
  }
  get maxRetained(): number {
    return this.#written.maxRetained;
  }
  set maxRetained(bytes: number) {
    this.#written.maxRetained = bytes;
  }

  unconfirmed(): Iterable<Uint8Array> {
    return this.#written.unconfirmed();
  }

  unwritten(): UnwrittenBody[] {
    const lanes = [...(this.#lanes?.values() ?? [])];
    if (this.#messages !== undefined) lanes.unshift(this.#messages);
    return lanes.flatMap((lane) => lane.unwritten());
  }

  confirm(count: number): void {
    this.#written.confirm(count);
  }

  pause(): void {
    this.#isPaused = true;
    this.#written.pause();
    this.#control.dropUncounted();
  }

  replayFrom(count: number): void {
    this.#isPaused = false;
    this.#written.replayFrom(count);
  }

  get isIdle(): boolean {
    if (this.#control.size > 0) return false;
    const hasTurn = this.#turns.size > 0 && !this.#isSlowed && !this.#written.isFull;
    return this.#isPaused || (!hasTurn && !this.#written.isReplaying);
  }

  pushControl(frame: Uint8Array | string): void {
    this.#control.push(frame, false);
  }

  pushStatement(frame: Uint8Array): void {
    if (!this.#isPaused) this.pushControl(frame);
  }

  pushSignal(frame: Uint8Array): void {
    this.#control.push(frame, true);
  }

  pushBody(body: OutgoingBody): void {
    this.#push(body.streamId, body, body.bytes.length);
  }

  pushSource(body: SourcedBody): void {
    this.#push(body.streamId, body, body.waiting);
  }

  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void {
    const lane = this.#laneOf(streamId);
    const body = lane?.source;
    if (lane === undefined || body === undefined) return;
    body.feed(bytes, onWritten);
    lane.queuedBytes += bytes.length;
    this.queuedBytes += bytes.length;
    if (!lane.starved) return;
    lane.starved = false;
    this.#turns.push(lane);
  }

  pushBehind(streamId: number, frame: Uint8Array | (() => Uint8Array)): void {
    const size = typeof frame === 'function' ? 1 : frame.length;
    this.#push(streamId, { frame, size }, size);
  }

  pushBare(frame: Uint8Array | string, body: CodedBody): void {
    this.#push(0, { bare: frame, body }, frame.length);
  }

  has(streamId: number): boolean {
    return this.#laneOf(streamId) !== undefined;
  }

  queuedOn(streamId: number): number {
    return this.#laneOf(streamId)?.queuedBytes ?? 0;
  }

  get memory(): number {
    return this.queuedBytes + this.#items * ITEM_MEMORY + this.#written.memory;
  }

  memoryOf(streamId: number): number {
    const lane = this.#laneOf(streamId);
    return lane === undefined ? 0 : lane.queuedBytes + lane.size * ITEM_MEMORY;
  }

  drop(streamId: number): boolean {
    const lane = this.#laneOf(streamId);
    if (lane === undefined || lane.isEmpty) return true;
    this.queuedBytes -= lane.queuedBytes;
    this.#items -= lane.size;
    if (streamId === 0) this.#messages = undefined;
    else this.#lanes?.delete(streamId);
    if (lane === this.#released) this.#released = undefined;
    if (lane.blocked) this.blockedStreams--;
    else if (this.#paced?.includes(lane)) this.#leavePaced(lane);
    else if (!lane.starved) this.#turns.delete(lane);
    for (const item of lane.unwritten()) if ('onDropped' in item) item.onDropped?.();
    return lane.begun;
  }

  dropSources(): void {
    for (const lane of [...(this.#lanes?.values() ?? [])]) {
      if (lane.source !== undefined) this.drop(lane.streamId);
    }
  }

  unblock(streamId: number): void {
    const lane = this.#laneOf(streamId);
    if (lane === undefined || !lane.blocked) return;
    lane.blocked = false;
    this.blockedStreams--;
    this.#turns.push(lane);
  }

  clear(): void {
    this.#written.clear();
    this.#messages = undefined;
    this.#lanes = undefined;
    this.#turns.clear();
    this.#paced = undefined;
    this.#released = undefined;
    this.queuedBytes = 0;
    this.#items = 0;
    this.blockedStreams = 0;
  }

  releaseMemory(): void {
    this.#written.releaseMemory();
  }

  next(now = 0): Uint8Array | string | undefined {
    const frame = this.#next(now);
    if (frame !== undefined) this.pace?.write(frame.length, now);
    return frame;
  }

  #next(now: number): Uint8Array | string | undefined {
    const control = this.#nextControl();
    if (control !== undefined || this.#isPaused) return control;
    const replayed = this.#nextReplayed(now);
    if (replayed !== undefined) return replayed;
    const { pace } = this;
    if (this.#written.isFull || (pace !== undefined && !this.#keepPace(pace, now))) return undefined;
    for (let lane = this.#turns.first; lane !== undefined; lane = this.#turns.first) {
      const begins = pace !== undefined && lane.beginsMessage;
      if (begins && !this.#isItsTime(lane, pace, now)) {
        this.#paced ??= [];
        this.#paced.push(lane);
        this.#turns.shift();
        continue;
      }
      const announcement = this.#announce(lane);
      if (announcement !== undefined) return announcement;
      const frame = this.#write(lane);
      if (lane === this.#released) this.#released = undefined;
      if (begins && frame !== undefined) pace.begin(now);
      if (frame === undefined) {
        lane.blocked = true;
        this.blockedStreams++;
        this.#turns.shift();
        continue;
      }
      lane.begun = true;
      if (lane.isEmpty) {
        this.#turns.shift();
        this.#leave(lane);
      } else if (lane.starved) {
        this.#turns.shift();
      } else if (this.#turns.size > 1) {
        this.#turns.push(this.#turns.shift() as Lane);
      }
      return frame;
    }
    return undefined;
  }

  /** Puts the lane back in turn whose time has come. Returns whether anything may be written at all. */
  #keepPace(pace: Pacer, now: number): boolean {
    this.#isSlowed = !pace.mayWrite(now);
    if (this.#isSlowed) return false;
    const next = this.#paced?.[0];
    if (next !== undefined && this.#released === undefined && pace.mayBegin(now)) {
      this.#leavePaced(next);
      this.#turns.unshift(next);
      this.#released = next;
    }
    return true;
  }

  /** What has waited begins first: the IDs of streams only grow, so no request may overtake another. */
  #isItsTime(lane: Lane, pace: Pacer, now: number): boolean {
    return lane === this.#released || (this.#paced === undefined && pace.mayBegin(now));
  }

  #leavePaced(lane: Lane): void {
    const others = this.#paced?.filter((other) => other !== lane);
    this.#paced = others === undefined || others.length === 0 ? undefined : others;
  }

  /** Uncounted frames first; counted ones take their place behind what is replayed. */
  #nextControl(): Uint8Array | string | undefined {
    const next = this.#control.shift(this.#isPaused || this.#written.isReplaying);
    if (next === undefined || !next.counted) return next?.frame;
    return this.#written.appendCopy(next.frame as Uint8Array);
  }

  #nextReplayed(now: number): Uint8Array | string | undefined {
    if (!this.#written.isReplaying) return undefined;
    const frame = this.#written.nextReplayed();
    if (frame === undefined) return this.#nextControl();
    // What is written again waits for nothing, but what is new then waits for it.
    if (this.pace !== undefined && endsMessage(frame)) this.pace.begin(now);
    return frame;
  }

  /** What has to precede the next frame of a lane: the number for the agent that its body is for. */
  #announce({ first: item, offset }: Lane): Uint8Array | undefined {
    if (offset > 0 || 'frame' in item || 'bare' in item || item.agent === undefined) return undefined;
    item.alias = this.aliases?.aliasOf(item.agent);
    if (item.alias !== undefined || this.aliases === undefined) return undefined;
    return this.#written.appendCopy(this.aliases.announce(item.agent));
  }

  /** The next frame of a lane, `undefined` where it has no credit for any. */
  #write(lane: Lane): Uint8Array | string | undefined {
    let item = lane.first;
    if ('bare' in item) {
      this.#dequeue(lane, item.bare.length);
      this.#advance(lane);
      this.#count(item.body.codec, item.body.bytes.length, item.body.originalLength);
      return item.bare;
    }
    if ('frame' in item) {
      this.#dequeue(lane, item.size);
      this.#advance(lane);
      return this.#written.appendCopy(typeof item.frame === 'function' ? item.frame() : item.frame);
    }
    if (item instanceof SourcedBody) return this.#writeSourced(lane, item);
    if (item.deferred !== undefined) {
      const coded = this.#code(lane, item);
      if (coded === undefined) return undefined;
      item = coded;
    }
    const { bytes } = item;
    const start = lane.offset;
    const end = this.#cut(item, start);
    if (end === undefined) return undefined;
    this.#dequeue(lane, end - start);
    lane.offset = end;
    const length = bodyFrameLength(item, start, end);
    this.#written.reserve(length);
    writeBodyFrame(this.#written.target, this.#written.offset, item, start, end);
    if (end === bytes.length) {
      this.#advance(lane);
      this.#count(item.codec, bytes.length, item.originalLength);
      this.context?.handleWritten(item);
    }
    const frame = this.#written.append(length);
    if (end === bytes.length) item.onWritten?.(this.framesWritten);
    return frame;
  }

  /** Codes a body that waits for its first frame, as soon as there is credit for some of it. */
  #code(lane: Lane, body: OutgoingBody): OutgoingBody | undefined {
    const needed = bodyHeadLength(body, false) + BODY_CHARGE + MIN_FIRST_PIECE;
    if (this.credit !== undefined && this.credit.available(lane.streamId) < needed) return undefined;
    const coded = this.context?.code(body) ?? { ...body, deferred: undefined };
    lane.replaceFirst(coded);
    this.#dequeue(lane, body.bytes.length - coded.bytes.length);
    return coded;
  }

  /** The next frame of a body from what was fed of it. */
  #writeSourced(lane: Lane, body: SourcedBody): Uint8Array | undefined {
    const { streamId } = body;
    const available = this.credit?.available(streamId) ?? Infinity;
    const charge = body.written === 0 ? BODY_CHARGE : 0;
    let size = Math.min(body.waiting, MAX_PIECE_SIZE);
    // What stands before the bytes of a first frame that cannot carry them all is charged as well.
    if (charge + body.headLength(size) + size > available) {
      size = Math.min(size, available - charge - body.headLength(0));
      if (size < 1) return undefined;
    }
    this.credit?.spend(streamId, charge + body.headLength(size) + size);
    this.#dequeue(lane, size);
    const length = body.frameLength(size);
    this.#written.reserve(length);
    body.writeFrame(this.#written.target, this.#written.offset, size);
    lane.offset = body.written;
    if (body.isWritten) {
      this.#advance(lane);
      this.#count(body.codec, body.totalLength, body.totalLength);
    } else lane.starved = body.waiting === 0;
    const frame = this.#written.append(length);
    if (body.isWritten) body.onWritten?.(this.framesWritten);
    return frame;
  }

  #push(streamId: number, item: LaneItem, size: number): void {
    this.queuedBytes += size;
    let lane = this.#laneOf(streamId);
    if (lane === undefined) {
      lane = new Lane(streamId);
      if (streamId === 0) this.#messages = lane;
      else {
        this.#lanes ??= new Map();
        this.#lanes.set(streamId, lane);
      }
    }
    // A lane with items is in turn already, or blocked.
    if (lane.isEmpty) this.#turns.push(lane);
    lane.queuedBytes += size;
    lane.push(item);
    this.#items++;
  }

  /** The first item of a lane is written to its end. */
  #advance(lane: Lane): void {
    lane.advance();
    this.#items--;
  }

  /**
   * Where the next frame of a body ends, by size and by credit, which is spent; `undefined` where there
   * is no credit for any of it.
   */
  #cut(body: OutgoingBody, start: number): number | undefined {
    const { bytes, streamId } = body;
    const { credit } = this;
    const available = credit?.available(streamId) ?? Infinity;
    let end = Math.min(bytes.length, start + MAX_FRAGMENT_SIZE);
    let head = 0;
    if (start === 0) {
      head = bodyHeadLength(body, true) + BODY_CHARGE;
      const fits = end === bytes.length && head + end <= available;
      if (!fits) head = bodyHeadLength(body, false) + BODY_CHARGE;
      if (!fits && available - head < 1) return undefined;
    } else if (available < 1) {
      return undefined;
    }
    end = Math.min(end, start + available - head);
    const isLast = end === bytes.length && body.codec === BodyCodec.CONTEXT;
    const expansion = isLast ? expansionOf(body.originalLength, bytes.length) : 0;
    credit?.spend(streamId, head + end - start + expansion);
    return end;
  }

  /** Replayed frames are not counted again: they come from the log and not from here. */
  #count(codec: BodyCodec, codedBytes: number, contentBytes: number): void {
    this.sentBodies ??= new BodyCounts();
    this.sentBodies.add(codec, codedBytes, contentBytes);
  }

  #laneOf(streamId: number): Lane | undefined {
    return streamId === 0 ? this.#messages : this.#lanes?.get(streamId);
  }

  #leave(lane: Lane): void {
    if (lane.streamId === 0) return;
    this.#lanes?.delete(lane.streamId);
    this.listener?.handleDrained(lane.streamId);
  }

  #dequeue(lane: Lane, size: number): void {
    lane.queuedBytes -= size;
    this.queuedBytes -= size;
  }
}

/** Whether a written link frame is the last of a message, request or transfer. */
function endsMessage(frame: Uint8Array): boolean {
  const kind = (frame[0] ?? 0) & 0x0f;
  if (kind !== LinkKind.MESSAGE && kind !== LinkKind.REQUEST) return false;
  return (decodeLinkFrame(frame).flags & LinkFlag.MORE) === 0;
}
