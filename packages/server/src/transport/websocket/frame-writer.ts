import type { Duplex } from 'node:stream';
// Not the global one, which the fake timers of a user's test replace.
import { setImmediate } from 'node:timers';
import { type Crashable, guard } from '@parlance/protocol/internal';

/**
 * Writes WebSocket frames to a socket (RFC 6455 section 5.2), usually once per tick of the event loop.
 *
 * The WebSocket library writes the header and payload of each frame as separate chunks, which costs more than copying
 * them. Here all small frames of a turn are copied into one chunk. After nearly every write the operating system has
 * the bytes when the call returns, so the next connection reuses the memory. The source of a copied frame may be
 * reused at the end of the turn; a large frame is written without copying.
 */

const FINAL = 0x80;
const FINAL_TEXT = 0x81;
const FINAL_BINARY = 0x82;
const MAX_HEADER = 10;
/** Larger frames are not copied, in bytes; one that leaves alone is, up to the second size, because a write of two chunks costs more. */
const MAX_COPIED = 8 * 1024;
const MAX_COPIED_ALONE = 32 * 1024;
const ARENA_SIZE = 64 * 1024;
/** More bytes do not wait for the end of the turn, by which time they would have left the CPU caches. */
const MAX_PENDING = 256 * 1024;

/**
 * The bit and the key that a client's frames must have. The key is zero, which changes no byte and costs neither end
 * anything. Random keys protect proxies from pages that choose the bytes; between nodes there is no page.
 */
const MASKED = 0x80;
const MASK_LENGTH = 4;

/** The state of the WebSocket whose frames are written here. */
interface WritableState {
  readonly readyState: number;
}
const OPEN = 1;

export class FrameWriter {
  readonly #webSocket: WritableState;
  readonly #socket: Duplex;
  readonly #owner: Crashable;
  readonly #isClient: boolean;
  /** `undefined` while nothing waits: most connections are idle. */
  #frames: (Uint8Array | string)[] | undefined;
  #pendingBytes = 0;
  #written = 0;
  /** In latin1. */
  #head = '';

  /**
   * @param owner gets the errors of writing at the end of a turn, so that other writers continue.
   * @param isClient whether the frames are those of a client.
   */
  constructor(webSocket: WritableState, socket: Duplex, owner: Crashable, isClient = false) {
    this.#owner = owner;
    this.#isClient = isClient;
    this.#webSocket = webSocket;
    this.#socket = socket;
  }

  /**
   * Bytes of the frames that were written, and of those that wait, with their headers. A frame that waits when the closing handshake begins is
   * not written.
   */
  get written(): number {
    const isOpen = this.#webSocket.readyState === OPEN;
    const waiting = (isOpen && this.#frames) || [];
    return waiting.reduce((sum, frame) => sum + this.#lengthOf(frame), this.#written);
  }

  #lengthOf(frame: Uint8Array | string): number {
    const length = typeof frame === 'string' ? Buffer.byteLength(frame) : frame.length;
    return length + (length < 126 ? 2 : length < 0x10000 ? 4 : 10) + (this.#isClient ? MASK_LENGTH : 0);
  }

  /** Bytes passed to `write` that have not left the process. */
  get bufferedAmount(): number {
    return this.#pendingBytes + this.#socket.writableLength;
  }

  /** The frame must not change until the end of the turn; a large one, until it is acknowledged. */
  write(frame: Uint8Array | string): void {
    if (this.#frames === undefined) {
      // This may flush writers that wait, of which this one may be: it keeps its place if it has flushed early.
      schedule(this);
      this.#frames ??= [];
    }
    this.#frames.push(frame);
    this.#pendingBytes += frame.length;
    if (this.#pendingBytes >= MAX_PENDING) this.flush();
  }

  /** Writes what comes before all frames, in one chunk with those of this turn. */
  begin(head: string): void {
    this.#head = head;
    schedule(this);
    this.#frames ??= [];
  }

  /** Writes a control frame of a server before the frames that wait. */
  writeControl(opcode: number, payload: Uint8Array, onWritten?: () => void): void {
    const frame = Buffer.allocUnsafe(2 + payload.length);
    frame[0] = FINAL | opcode;
    frame[1] = payload.length;
    frame.set(payload, 2);
    if (this.#head !== '') this.flush();
    if (!this.#socket.writable) return;
    this.#written += frame.length;
    this.#socket.write(frame, onWritten);
  }

  /** Like {@link flush}, but reports errors to the owner. */
  endTurn(): void {
    guard(this.#owner, () => this.flush());
  }

  /** Writes pending frames before the end of the turn. */
  flush(): void {
    const frames = this.#frames;
    if (frames === undefined) return;
    this.#frames = undefined;
    this.#pendingBytes = 0;
    const socket = this.#socket;
    const head = this.#head;
    this.#head = '';
    if (!socket.writable) return;
    // No frame is written once the closing handshake has begun.
    if (this.#webSocket.readyState === OPEN) this.#writeFrames(frames, head);
    else if (head !== '') socket.write(head, 'latin1');
  }

  #writeFrames(frames: readonly (Uint8Array | string)[], head: string): void {
    const socket = this.#socket;
    // A congested socket would keep the arena from other connections.
    const isCongested = socket.writableLength > 0;
    const masks = this.#isClient ? frames.length * MASK_LENGTH : 0;
    const largest = frames.length === 1 && !isCongested ? MAX_COPIED_ALONE : MAX_COPIED;
    const copied = copiedLength(frames, largest) + masks + head.length;
    const region = isCongested ? Buffer.allocUnsafe(copied) : takeArena(copied);
    let at = head === '' ? 0 : region.write(head, 0, 'latin1');
    let from = 0;
    let isCorked = false;
    for (const each of frames) {
      const frame = typeof each === 'string' ? Buffer.from(each) : each;
      this.#written += this.#lengthOf(frame);
      at = writeHeader(region, at, typeof each === 'string' ? FINAL_TEXT : FINAL_BINARY, frame.length);
      if (this.#isClient) at = mask(region, at, frame.length);
      if (frame.length <= largest) {
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

/** Bytes of all headers and copied frames, at most. */
function copiedLength(frames: readonly (Uint8Array | string)[], largest: number): number {
  let length = 0;
  for (const frame of frames) {
    // A UTF-16 unit is at most three bytes of UTF-8.
    const most = typeof frame === 'string' ? frame.length * 3 : frame.length;
    length += MAX_HEADER + (most <= largest || typeof frame === 'string' ? Math.min(most, largest) : 0);
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

/** @param at the end of the header without a mask. */
function mask(region: Buffer, at: number, length: number): number {
  const second = at - (length < 126 ? 1 : length < 0x10000 ? 3 : 9);
  region[second] = (region[second] as number) | MASKED;
  region.fill(0, at, at + MASK_LENGTH);
  return at + MASK_LENGTH;
}

// --- the arena: scratch memory that successive writes share

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

/** @param region the region that was taken last and is unused now. */
function returnArena(region: Buffer): void {
  if (region.buffer === arena.buffer) arenaUsed = region.byteOffset - arena.byteOffset;
}

// --- the end of the turn

/**
 * The number of connections that wait for the end of a turn, at most. One more flushes them: a turn of a thousand
 * connections is long, and the peers of the first ones can continue meanwhile.
 */
const MAX_WAITING = 8;

let waiting: FrameWriter[] = [];
let isScheduled = false;

function schedule(writer: FrameWriter): void {
  if (waiting.length >= MAX_WAITING) flushWaiting();
  if (!isScheduled) {
    isScheduled = true;
    // Not `nextTick`: applications reply in microtasks, which run after it.
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
