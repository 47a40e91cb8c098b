import { Fifo } from '../base/fifo.js';
import type { BodyCounts, CodedBody } from '../codec/body.js';
import { BodyWriter } from './body-writer.js';
import { endsMessage, isSignal, type OutgoingBody, type UncountedFrames } from './frame.js';
import type { KeptMessages } from './kept-messages.js';
import type { OutboxListener, OutboxParts, OutboxState } from './outbox-parts.js';
import type { Pacing } from './pacing.js';
import type { RateName } from './rates.js';
import { WrittenFrames } from './replay.js';
import { ControlQueue, isStreamed, type QueueItem, SendQueue, type UnwrittenBody } from './send-queue.js';
import type { StreamedBody } from './streamed-body.js';

/** Stands for a queue of turns that nothing was put in; nothing is. */
const NO_QUEUES = new Fifo<SendQueue>();
/** Memory of a queued body beside its bytes: the object, its place in the queue, its codings. */
const ITEM_MEMORY = 512;

/**
 * Everything that is queued to be written, and its order: control frames first, then the streams in turn, one frame
 * each. Large bodies are cut into fragments, so that nothing waits for a whole tensor. Order is kept within a stream.
 *
 * The driver pulls one frame whenever the socket has room, so a frame is built no earlier than it is written. A stream
 * is skipped while it has no credit for its next frame, and a message does not begin before the peer's rate allows it.
 */
export class Outbox implements UncountedFrames {
  /** Bytes queued on all streams; control frames do not count. */
  queuedBytes = 0;
  /** Bodies and frames queued on all streams. */
  queuedItems = 0;
  /** Streams that wait for credit. */
  blockedStreams = 0;
  /** Keeps to the peer's rates; without it nothing is delayed. */
  pace: Pacing | undefined;
  #listener: OutboxListener | undefined;
  #acknowledgement: OutboxParts['acknowledgement'];
  /** Completely written bodies; `undefined` before the first. Replayed frames are not counted again. */
  sentBodies: BodyCounts | undefined;
  /** Keep written frames until they are confirmed, so that they can be replayed. */
  retain = false;
  /** Written frames and their writer exist only while a link, or a message without one, needs them. */
  #frames: WrittenFrames | undefined;
  #writer: BodyWriter | undefined;
  #kept: KeptMessages | undefined;
  readonly #control = new ControlQueue();
  #isPaused = false;
  /** Stream 0, which becomes empty again and again; other queues exist only while something is in them. */
  #messages: SendQueue | undefined;
  #streams: Map<number, SendQueue> | undefined;
  /** Queues that can write a frame, in order of turn. */
  #ready: Fifo<SendQueue> = NO_QUEUES;

  /** Connects the outbox to its link. */
  attach(parts: OutboxParts): void {
    this.#begunWriter.attach(parts);
    this.#listener = parts.listener;
    this.#acknowledgement = parts.acknowledgement;
    this.#written.maxRetained = parts.maxRetained ?? Infinity;
  }

  get #written(): WrittenFrames {
    if (this.#frames === undefined) {
      this.#frames = new WrittenFrames(this.retain);
      this.#frames.messages = this.#kept;
    }
    return this.#frames;
  }

  get #begunWriter(): BodyWriter {
    this.#writer ??= new BodyWriter(this.#written, this);
    return this.#writer;
  }

  /** Lets go of its link, until {@link attach}. Nothing is queued or waits to be confirmed. */
  detach(): void {
    this.releaseMemory();
    this.#frames = undefined;
    this.#writer = undefined;
    this.#listener = this.#acknowledgement = undefined;
    this.#messages = undefined;
    this.#streams = undefined;
    this.#ready = NO_QUEUES;
  }

  // --- state

  /** Nothing can be written before the peer grants credit, acknowledges, or its rate allows it. */
  get isIdle(): boolean {
    if (this.#control.size > 0) return false;
    const frames = this.#frames;
    const hasTurn = this.#ready.size > 0 && !this.pace?.isSlowed && frames?.isFull !== true;
    return this.#isPaused || (!hasTurn && frames?.isReplaying !== true);
  }

  /** Something waits for the peer's rate. */
  get isPaced(): boolean {
    return this.pacedBy !== undefined;
  }

  /** The rate of the peer for which something waits. */
  get pacedBy(): RateName | undefined {
    return this.pace?.holdsBack(this.#ready.size > 0);
  }

  /** Anything other than control frames is queued. */
  get hasBodies(): boolean {
    return this.#messages?.isEmpty === false || (this.#streams?.size ?? 0) > 0;
  }

  /** Queued control frames: answers to the peer, which pile up if it does not read. */
  get controlFrames(): number {
    return this.#control.size;
  }

  /** Counted frames written since the session began. */
  get framesWritten(): number {
    return this.#written.count;
  }

  /** Approximate bytes of memory taken by everything that is queued or awaits confirmation. */
  get memory(): number {
    return this.queuedBytes + this.queuedItems * ITEM_MEMORY + (this.#frames?.memory ?? 0);
  }

  /** Whether anything is queued on `streamId`. */
  has(streamId: number): boolean {
    return this.#queueOf(streamId) !== undefined;
  }

  queuedOn(streamId: number): number {
    return this.#queueOf(streamId)?.queuedBytes ?? 0;
  }

  /** Approximate bytes of memory taken by everything that is queued on `streamId`. */
  memoryOf(streamId: number): number {
    const queue = this.#queueOf(streamId);
    return queue === undefined ? 0 : queue.queuedBytes + queue.size * ITEM_MEMORY;
  }

  /** Bodies that are not completely written. */
  unwritten(): UnwrittenBody[] {
    return this.parts.queues.flatMap((queue) => queue.unwritten());
  }

  /** Its state, for a snapshot: the peer's rates delay nothing at a server, which it leaves out. */
  get parts(): OutboxState {
    const queues = [...(this.#streams?.values() ?? [])];
    if (this.#messages !== undefined) queues.unshift(this.#messages);
    if (this.#ready === NO_QUEUES) this.#ready = new Fifo();
    const [ready, control, written, writer] = [this.#ready, this.#control, this.#written, this.#begunWriter];
    return { queues, ready, control, written, writer };
  }

  // --- queueing

  /** Queues a frame outside every stream, which is written before all others. */
  pushControl(frame: Uint8Array | string): void {
    this.#control.push(frame, false);
  }

  /** Like {@link pushControl}; dropped without a connection, as the link sends these again after a resume. */
  pushUncounted(frame: Uint8Array): void {
    if (!this.#isPaused) this.pushControl(frame);
  }

  /** Queues a counted frame outside every stream, such as cancel. */
  pushSignal(frame: Uint8Array): void {
    this.#control.push(frame, true);
  }

  /** A streamed body must have been fed its first bytes; {@link feed} brings the others. */
  pushBody(body: OutgoingBody | StreamedBody): void {
    this.#push(body.streamId, body, isStreamed(body) ? body.waiting : body.bytes.length);
  }

  /** The next bytes, at least one, of the streamed body on `streamId`; ignored if the body was dropped. */
  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void {
    const queue = this.#queueOf(streamId);
    const body = queue?.streamed;
    if (queue === undefined || body === undefined) return;
    body.feed(bytes, onWritten);
    queue.resize(bytes.length);
    if (!queue.awaitingSource) return;
    queue.awaitingSource = false;
    this.#takeTurn(queue);
  }

  /** Queues a frame after all bodies of its stream: its end or its error. */
  pushAfter(streamId: number, frame: Uint8Array): void {
    this.#push(streamId, { frame }, frame.length);
  }

  /** Queues a message of a session without a link; `frame` is the whole WebSocket message. */
  pushPlain(frame: Uint8Array | string, body: CodedBody): void {
    this.#push(0, { bare: frame, body }, frame.length);
  }

  /** The peer has granted `streamId` more credit. */
  unblock(streamId: number): void {
    const queue = this.#queueOf(streamId);
    if (queue === undefined || !queue.blocked) return;
    queue.blocked = false;
    this.blockedStreams--;
    this.#takeTurn(queue);
  }

  /** Forgets everything queued on a stream. Returns `false` if nothing on it was ever written. */
  drop(streamId: number): boolean {
    const queue = this.#queueOf(streamId);
    if (queue === undefined || queue.isEmpty) return true;
    this.#forget(queue);
    for (const item of queue.unwritten()) if ('onDropped' in item) item.onDropped?.();
    return queue.started;
  }

  /** Forgets the message with this `onDropped` if none of it is written. Returns whether it did. */
  withdraw(onDropped: () => void): boolean {
    const queue = this.#messages;
    if (queue === undefined) return false;
    const { first } = queue;
    if (!queue.remove(onDropped)) return false;
    if (queue.isEmpty) this.#forget(queue);
    // The next message may need less credit.
    else if (queue.first !== first) this.unblock(0);
    return true;
  }

  /** Forgets all streams and all frames that await confirmation, but no control frame. */
  clear(): void {
    this.#frames?.clear();
    this.#messages = undefined;
    this.#streams = undefined;
    this.#ready.clear();
    this.pace?.clear();
    this.queuedBytes = this.queuedItems = this.blockedStreams = 0;
  }

  // --- connections

  /** The peer has received `count` counted frames, which are forgotten. */
  confirm(count: number): void {
    this.#frames?.confirm(count);
  }

  /** Written frames that await confirmation, if they are kept. */
  unconfirmed(): Iterable<Uint8Array> {
    return this.#frames?.unconfirmed() ?? [];
  }

  /** The connection is lost: until {@link replayFrom}, only new control frames are written. */
  pause(): void {
    this.#isPaused = true;
    this.#frames?.pause();
    this.#control.drop(false);
  }

  /** A new connection: writes frame `count` and all later ones again, unchanged, before anything new. */
  replayFrom(count: number): void {
    this.#isPaused = false;
    this.#written.replayFrom(count);
  }

  /** Keeps written one-way messages until they are confirmed, for {@link rebuild}. */
  keepMessages(kept: KeptMessages): void {
    this.#kept = kept;
    if (this.#frames !== undefined) this.#frames.messages = kept;
  }

  /** A new connection and a new link: forgets everything. Returns the one-way messages that are not confirmed. */
  rebuild(): UnwrittenBody[] {
    const messages = [...this.#written.rebuild(), ...(this.#messages?.unwritten() ?? [])];
    if (this.#messages?.isEmpty === false) this.#forget(this.#messages);
    for (const streamId of [...(this.#streams?.keys() ?? [])]) this.drop(streamId);
    this.#control.drop(true);
    this.#isPaused = false;
    return messages;
  }

  /** Releases the memory that is kept in stock for later frames. */
  releaseMemory(): void {
    this.#frames?.releaseMemory();
  }

  // --- writing

  /** The next frame for the socket. @param now clock reading. */
  next(now: number): Uint8Array | string | undefined {
    const frame = this.#next(now);
    if (frame !== undefined && !isSignal(frame)) this.pace?.write(frame.length, now);
    return frame;
  }

  #next(now: number): Uint8Array | string | undefined {
    if (this.#ready.size > 0) this.#acknowledgement?.handleWriting(now);
    const control = this.#nextControl();
    if (control !== undefined || this.#isPaused) return control;
    const frames = this.#frames;
    const replayed = frames?.isReplaying === true ? this.#nextReplayed(frames, now) : undefined;
    if (replayed !== undefined) return replayed;
    const { pace } = this;
    if (frames?.isFull || pace?.lets(this.#ready, now) === false) return undefined;
    for (let queue = this.#ready.first; queue !== undefined; queue = this.#ready.first) {
      const begins = pace !== undefined && queue.beginsMessage;
      if (begins && pace.defers(queue, now)) {
        this.#ready.shift();
        continue;
      }
      const writer = this.#begunWriter;
      const announcement = writer.announce(queue);
      if (announcement !== undefined) return announcement;
      const frame = writer.write(queue);
      pace?.leave(queue);
      if (frame === undefined) {
        this.#ready.shift();
        queue.blocked = true;
        this.blockedStreams++;
        continue;
      }
      if (begins) pace.begin(now);
      queue.started = true;
      this.#endTurn(queue);
      return frame;
    }
    return undefined;
  }

  /** Moves the queue that has had its turn, the first of `#ready`, to where it belongs. */
  #endTurn(queue: SendQueue): void {
    if (queue.isEmpty) {
      this.#ready.shift();
      if (queue.streamId === 0) return;
      this.#streams?.delete(queue.streamId);
      this.#listener?.handleDrained(queue.streamId);
    } else if (queue.awaitingSource) {
      this.#ready.shift();
    } else if (this.#ready.size > 1) {
      this.#ready.push(this.#ready.shift() as SendQueue);
    }
  }

  /** Uncounted frames at any time; counted ones after the frames that are replayed. */
  #nextControl(): Uint8Array | string | undefined {
    const next = this.#control.shift(this.#isPaused || this.#frames?.isReplaying === true);
    if (next === undefined || !next.counted) return next?.frame;
    return this.#written.appendCopy(next.frame as Uint8Array);
  }

  #nextReplayed(frames: WrittenFrames, now: number): Uint8Array | string | undefined {
    const frame = frames.nextReplayed();
    if (frame === undefined) return this.#nextControl();
    // A replayed message does not wait for the rate, but new ones then wait for it.
    if (this.pace !== undefined && endsMessage(frame)) this.pace.begin(now);
    return frame;
  }

  // --- queues

  #queueOf(streamId: number): SendQueue | undefined {
    return streamId === 0 ? this.#messages : this.#streams?.get(streamId);
  }

  #push(streamId: number, item: QueueItem, size: number): void {
    const queue = this.#queueOf(streamId) ?? this.#addQueue(streamId);
    // A queue that is not empty has its place already.
    if (queue.isEmpty) this.#takeTurn(queue);
    queue.push(item, size);
  }

  #takeTurn(queue: SendQueue): void {
    if (this.#ready === NO_QUEUES) this.#ready = new Fifo();
    this.#ready.push(queue);
  }

  #forget(queue: SendQueue): void {
    queue.discount();
    if (queue.streamId === 0) this.#messages = undefined;
    else this.#streams?.delete(queue.streamId);
    const hasWaited = this.pace?.leave(queue) === true;
    if (queue.blocked) this.blockedStreams--;
    else if (!hasWaited && !queue.awaitingSource) this.#ready.delete(queue);
  }

  #addQueue(streamId: number): SendQueue {
    const queue = new SendQueue(streamId, this);
    if (streamId === 0) this.#messages = queue;
    else {
      this.#streams ??= new Map();
      this.#streams.set(streamId, queue);
    }
    return queue;
  }
}
