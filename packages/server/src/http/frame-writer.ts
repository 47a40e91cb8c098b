import type { Duplex } from 'node:stream';
import { type Crashable, guard } from '@parlance/protocol/internal';

/**
 * Writes the frames of a server's side of a WebSocket to its socket (RFC 6455 section 5.2), those of a
 * connection at most once per turn of the event loop, or nearly so.
 *
 * A library call for each frame writes header and payload as pieces of their own, and the pieces cost
 * more than copying them: here all small frames of a turn become one piece, which for nearly every
 * write is in the hands of the operating system when the call returns, so that the memory it was put
 * together in serves the next connection. What such a frame was cut from may be used again as soon as
 * the turn is over; a large frame is written as it is.
 */

const FINAL_TEXT = 0x81;
const FINAL_BINARY = 0x82;
const MAX_HEADER = 10;
/** Larger frames are not copied. */
const MAX_COPIED = 8 * 1024;
const ARENA_SIZE = 64 * 1024;
/** More than this does not wait for the end of the turn: it would fall out of the caches until then. */
const MAX_PENDING = 256 * 1024;

/** What is asked of the WebSocket whose frames are written here. */
interface WritableState {
  readonly readyState: number;
}
const OPEN = 1;

export class FrameWriter {
  readonly #webSocket: WritableState;
  readonly #socket: Duplex;
  readonly #owner: Crashable;
  #frames: (Uint8Array | string)[] = [];
  #pendingBytes = 0;

  /** @param owner is told what writing at the end of a turn throws, which keeps no other writer waiting. */
  constructor(webSocket: WritableState, socket: Duplex, owner: Crashable) {
    this.#owner = owner;
    this.#webSocket = webSocket;
    this.#socket = socket;
  }

  /** Bytes that were handed over and have not left the process. */
  get bufferedAmount(): number {
    return this.#pendingBytes + this.#socket.writableLength;
  }

  /** The frame must stay as it is until the end of the turn, a large one until it has arrived. */
  write(frame: Uint8Array | string): void {
    if (this.#frames.length === 0) schedule(this);
    this.#frames.push(frame);
    this.#pendingBytes += frame.length;
    if (this.#pendingBytes >= MAX_PENDING) this.flush();
  }

  /** As {@link flush}, for nobody who could be told. */
  endTurn(): void {
    guard(this.#owner, () => this.flush());
  }

  /** Writes what waits, ahead of the end of the turn. */
  flush(): void {
    const frames = this.#frames;
    if (frames.length === 0) return;
    this.#frames = [];
    this.#pendingBytes = 0;
    const socket = this.#socket;
    // Once the closing handshake has begun, nothing more is written.
    if (this.#webSocket.readyState !== OPEN || !socket.writable) return;

    // A socket that is behind would keep the arena from everybody else.
    const isBehind = socket.writableLength > 0;
    const copied = copiedLength(frames);
    const region = isBehind ? Buffer.allocUnsafe(copied) : takeArena(copied);
    let at = 0;
    let from = 0;
    let isCorked = false;
    for (const each of frames) {
      const frame = typeof each === 'string' ? Buffer.from(each) : each;
      at = writeHeader(region, at, typeof each === 'string' ? FINAL_TEXT : FINAL_BINARY, frame.length);
      if (frame.length <= MAX_COPIED) {
        region.set(frame, at);
        at += frame.length;
        continue;
      }
      if (!isCorked) socket.cork();
      isCorked = true;
      socket.write(region.subarray(from, at));
      socket.write(frame);
      from = at;
    }
    if (at > from) socket.write(region.subarray(from, at));
    if (isCorked) socket.uncork();
    if (socket.writableLength === 0) returnArena(region);
  }
}

/** Room for all headers and all frames that are copied. */
function copiedLength(frames: readonly (Uint8Array | string)[]): number {
  let length = 0;
  for (const frame of frames) {
    // A UTF-16 unit is at most three bytes of UTF-8.
    const most = typeof frame === 'string' ? frame.length * 3 : frame.length;
    length += MAX_HEADER + (most <= MAX_COPIED || typeof frame === 'string' ? Math.min(most, MAX_COPIED) : 0);
  }
  return length;
}

function writeHeader(region: Buffer, at: number, first: number, length: number): number {
  region[at++] = first;
  if (length < 126) {
    region[at++] = length;
    return at;
  }
  if (length < 0x10000) {
    region[at++] = 126;
    region[at++] = length >> 8;
    region[at++] = length & 0xff;
    return at;
  }
  region[at++] = 127;
  region.writeUInt32BE(Math.floor(length / 2 ** 32), at);
  return region.writeUInt32BE(length % 2 ** 32, at + 4);
}

// --- the arena: scratch memory for one write after the other

let arena = Buffer.alloc(0);
let arenaUsed = 0;

function takeArena(length: number): Buffer {
  if (length > ARENA_SIZE) return Buffer.allocUnsafe(length);
  if (arenaUsed + length > arena.length) {
    arena = Buffer.allocUnsafeSlow(ARENA_SIZE);
    arenaUsed = 0;
  }
  const region = arena.subarray(arenaUsed, arenaUsed + length);
  arenaUsed += length;
  return region;
}

/** @param region taken last, and held by nobody any more. */
function returnArena(region: Buffer): void {
  if (region.buffer === arena.buffer) arenaUsed = region.byteOffset - arena.byteOffset;
}

// --- the end of the turn

/**
 * Connections that wait for the end of a turn at most. What more of them write is behind what these have to
 * say for now, and whoever waits for that can begin with it while the turn goes on: a turn of a thousand
 * connections is long.
 */
const MAX_WAITING = 8;

let waiting: FrameWriter[] = [];
let isScheduled = false;

function schedule(writer: FrameWriter): void {
  if (waiting.length >= MAX_WAITING) flushWaiting();
  if (!isScheduled) {
    isScheduled = true;
    // What an application answers comes in microtasks, which run after `nextTick`.
    setImmediate(endTurn);
  }
  waiting.push(writer);
}

function endTurn(): void {
  isScheduled = false;
  flushWaiting();
}

function flushWaiting(): void {
  const writers = waiting;
  waiting = [];
  for (const writer of writers) writer.endTurn();
}
