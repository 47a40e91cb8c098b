import { isUtf8 } from 'node:buffer';
import { Payload } from './payload.js';
import { turnKey, unmask } from './unmask.js';

/**
 * Reads the WebSocket frames of a client (RFC 6455 section 5) without a socket: bytes in, messages and control frames
 * out. It is as strict as the library `ws`, and ends with the same close codes.
 */

export interface FrameEvents {
  /** @param data belongs to the callee; valid UTF-8 unless `isBinary`. It may be a view of the chunk that was read. */
  onMessage(data: Buffer, isBinary: boolean): void;
  /** @param data as of messages; at most 125 bytes. */
  onPing(data: Buffer): void;
  onPong(): void;
  /** Nothing is read after it. @param code 1005 if the frame has none. */
  onClose(code: number, reason: string): void;
  /** The peer has broken a rule or a limit. Nothing is read after it. @param code that closes the connection. */
  onViolation(code: ViolationCode, message: string): void;
}

/** Close codes of violations (RFC 6455 section 7.4.1). */
export type ViolationCode = 1002 | 1007 | 1008 | 1009;

export interface FrameLimits {
  /** Bytes of a message. */
  readonly maxPayload: number;
  /** Frames of a message; 0 for any number. */
  readonly maxFragments: number;
}

export const Opcode = { CONTINUATION: 0, TEXT: 1, BINARY: 2, CLOSE: 8, PING: 9, PONG: 10 } as const;

const FINAL = 0x80;
const RESERVED = 0x70;
const MASKED = 0x80;
const MAX_CONTROL = 125;
const KEY_LENGTH = 4;
const MAX_HEADER = 14;
/** The code of a close frame without one. */
const NO_CODE = 1005;

export class FrameReader {
  readonly #limits: FrameLimits;
  readonly #events: FrameEvents;
  #isOver = false;
  /** The beginning of a header that is incomplete. */
  #headStart: Buffer | undefined;

  // --- the frame whose header was read last
  /** Its first byte. */
  #first = 0;
  #size = 0;
  #key = 0;
  /** Bytes of its payload that have not arrived. */
  #missing = 0;
  /** The payload of a control frame that arrives in pieces: it may stand between the fragments of a message. */
  #control: Payload | undefined;

  // --- the message whose last frame has not arrived
  /** The opcode of its first frame; 0 if there is none. */
  #opcode = 0;
  #fragments = 0;
  /** Bytes that the headers of its frames have stated. */
  #stated = 0;
  #payload: Payload | undefined;

  constructor(limits: FrameLimits, events: FrameEvents) {
    this.#limits = limits;
    this.#events = events;
  }

  /** Whether it reads no more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Reads no more, not even what is left of the chunk that is being read. */
  stop(): void {
    this.#isOver = true;
    this.#headStart = this.#control = this.#payload = undefined;
  }

  /** @param chunk belongs to the reader, which unmasks it in place. */
  read(chunk: Buffer): void {
    if (this.#isOver) return;
    let at = this.#missing > 0 ? this.#continue(chunk, 0) : 0;
    if (this.#headStart !== undefined) at = this.#endHeader(chunk, this.#headStart);
    while (at < chunk.length && !this.#isOver) {
      const start = this.#readHeader(chunk, at, chunk.length);
      if (start === undefined) {
        if (!this.#isOver) this.#headStart = unpooled(chunk.subarray(at));
        return;
      }
      at = this.#continue(chunk, start);
    }
  }

  /** Completes a header that began in earlier chunks, and reads on. Returns where the next frame begins. */
  #endHeader(chunk: Buffer, before: Buffer): number {
    const header = Buffer.concat([before, chunk.subarray(0, MAX_HEADER - before.length)]);
    const start = this.#readHeader(header, 0, header.length);
    this.#headStart = start === undefined && !this.#isOver ? unpooled(header) : undefined;
    return start === undefined ? chunk.length : this.#continue(chunk, start - before.length);
  }

  /**
   * Reads a header and checks each number in it as soon as it is there: memory is taken for payloads only.
   *
   * @returns where its payload begins; `undefined` if the header is incomplete or wrong.
   */
  #readHeader(bytes: Buffer, at: number, end: number): number | undefined {
    if (end - at < 2) return undefined;
    const first = bytes[at] as number;
    const second = bytes[at + 1] as number;
    const opcode = first & 0x0f;
    let size = second & 0x7f;
    const fault = this.#faultOf(first, opcode, size);
    if (fault !== undefined) return this.#violate(1002, fault);
    if ((second & MASKED) === 0) return this.#violate(1002, 'a frame without a mask');

    let start = at + 2;
    if (size === 126) {
      if (end - start < 2) return undefined;
      size = bytes.readUInt16BE(start);
      start += 2;
    } else if (size === 127) {
      if (end - start < 8) return undefined;
      // Numbers of more than 53 bits lose precision, but not their size.
      size = bytes.readUInt32BE(start) * 2 ** 32 + bytes.readUInt32BE(start + 4);
      start += 8;
    }
    const { maxPayload } = this.#limits;
    if (opcode < Opcode.CLOSE && size > 0 && this.#stated + size > maxPayload) {
      return this.#violate(1009, `a message of more than ${maxPayload} bytes`);
    }
    if (end - start < KEY_LENGTH) return undefined;

    this.#first = first;
    this.#size = this.#missing = size;
    this.#key = bytes.readInt32LE(start);
    if (opcode < Opcode.CLOSE) this.#stated += size;
    return start + KEY_LENGTH;
  }

  /** The rule that the first two bytes of a frame break. */
  #faultOf(first: number, opcode: number, size: number): string | undefined {
    if ((first & RESERVED) !== 0) return 'a reserved bit is set';
    switch (opcode) {
      case Opcode.CONTINUATION:
        return this.#opcode === 0 ? 'a continuation of nothing' : undefined;
      case Opcode.TEXT:
      case Opcode.BINARY:
        return this.#opcode === 0 ? undefined : 'a message within a message';
      case Opcode.CLOSE:
      case Opcode.PING:
      case Opcode.PONG:
        if (first < FINAL) return 'a control frame in fragments';
        if (size > MAX_CONTROL) return 'a control frame of more than 125 bytes';
        return opcode === Opcode.CLOSE && size === 1 ? 'a close frame of one byte' : undefined;
      default:
        return `the reserved opcode ${opcode}`;
    }
  }

  /** Takes bytes of the payload of the last header. Returns where the next frame begins. */
  #continue(chunk: Buffer, start: number): number {
    const missing = this.#missing;
    const end = Math.min(start + missing, chunk.length);
    if (end === start && missing > 0) return end;
    const piece = chunk.subarray(start, end);
    unmask(piece, this.#key);
    this.#missing -= piece.length;
    const isControl = (this.#first & Opcode.CLOSE) !== 0;
    if (piece.length === this.#size && (isControl || this.#payload === undefined)) {
      this.#endFrame(piece);
      return end;
    }
    this.#key = turnKey(this.#key, piece.length);
    if (isControl) this.#control ??= new Payload();
    else this.#payload ??= new Payload();
    const payload = (isControl ? this.#control : this.#payload) as Payload;
    const isWhole = isControl || (this.#first >= FINAL && this.#opcode === 0);
    payload.add(piece, isWhole ? missing : Infinity);
    if (this.#missing === 0) this.#endFrame(undefined);
    return end;
  }

  /** @param whole the payload if it lies in one piece, and no earlier frame of its message has one. */
  #endFrame(whole: Buffer | undefined): void {
    if ((this.#first & Opcode.CLOSE) !== 0) {
      const data = whole ?? (this.#control as Payload).take();
      this.#control = undefined;
      this.#handleControl(data);
      return;
    }
    const { maxFragments } = this.#limits;
    if (maxFragments > 0 && ++this.#fragments > maxFragments) {
      this.#violate(1008, `a message of more than ${maxFragments} fragments`);
      return;
    }
    if (this.#first < FINAL) {
      if (this.#opcode === 0) this.#opcode = this.#first;
      if (whole === undefined || whole.length === 0) return;
      this.#payload = new Payload();
      this.#payload.add(whole, Infinity);
      return;
    }
    const opcode = this.#opcode || this.#first & 0x0f;
    const data = whole ?? (this.#payload as Payload).take();
    this.#opcode = this.#fragments = this.#stated = 0;
    this.#payload = undefined;
    if (opcode === Opcode.TEXT && !isUtf8(data)) this.#violate(1007, 'a text that is not UTF-8');
    else this.#events.onMessage(data, opcode === Opcode.BINARY);
  }

  #handleControl(data: Buffer): void {
    const opcode = this.#first & 0x0f;
    if (opcode === Opcode.PING) return this.#events.onPing(data);
    if (opcode === Opcode.PONG) return this.#events.onPong();
    const code = data.length === 0 ? NO_CODE : data.readUInt16BE(0);
    if (data.length > 0) {
      if (!mayBeSent(code)) return void this.#violate(1002, `the close code ${code}`);
      if (!isUtf8(data.subarray(2))) return void this.#violate(1007, 'a close reason that is not UTF-8');
    }
    this.stop();
    this.#events.onClose(code, data.toString('utf8', 2));
  }

  #violate(code: ViolationCode, message: string): undefined {
    this.stop();
    this.#events.onViolation(code, message);
  }
}

/** A copy in memory of its own: within the pool of Node, a few bytes of an idle connection would keep up to 64 KiB. */
function unpooled(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}

/** Whether a close frame may have this code (RFC 6455 section 7.4). */
export function mayBeSent(code: number): boolean {
  if (code >= 3000) return code < 5000;
  return code >= 1000 && code <= 1014 && code !== 1004 && code !== 1005 && code !== 1006;
}
