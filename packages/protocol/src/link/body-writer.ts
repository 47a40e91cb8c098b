import { BodyCodec, BodyCounts, type BodyRole, countTokens } from '../codec/body.js';
import type { AliasWriter } from './addressing.js';
import { expansionOf, type LinkContext } from './context-coding.js';
import { BODY_CHARGE, type SendCredit } from './credit.js';
import { bodyFrameLength, bodyHeadLength, LinkKind, type OutgoingBody, writeBodyHead } from './frame.js';
import type { WrittenFrames } from './replay.js';
import { isStreamed as hasSource, type SendQueue } from './send-queue.js';
import type { StreamedBody } from './streamed-body.js';

/** Most bytes of a body in one frame. */
export const MAX_FRAGMENT_SIZE = 64 * 1024;
/** Most bytes of a streamed body in one frame. */
export const MAX_PIECE_SIZE = 256 * 1024;

/** A body in context names its base within its first bytes, and is never so short that it needs no credit. */
const MIN_FIRST_PIECE = 16;

/** By kind of frame. */
const ROLES: readonly BodyRole[] = ['messages', 'requests', 'parts', 'parts'];

/** The link's side of writing; every part is optional. */
export interface BodyWriterParts {
  /** Credit granted by the peer; without it, nothing waits for credit. */
  readonly credit?: SendCredit | undefined;
  /** Codes deferred bodies when their first frame is written. */
  readonly context?: LinkContext | undefined;
  /** Numbers for names, if addressing was negotiated. */
  readonly aliases?: AliasWriter | undefined;
}

/** Outlives the writer. */
export interface SentTotals {
  /** Completely written bodies; `undefined` before the first. */
  sentBodies: BodyCounts | undefined;
}

/** Turns the first item of a queue into its next frame: codes a deferred body, cuts it to the credit. */
export class BodyWriter {
  readonly #totals: SentTotals;
  readonly #frames: WrittenFrames;
  #credit: SendCredit | undefined;
  #context: LinkContext | undefined;
  aliases: AliasWriter | undefined;

  constructor(frames: WrittenFrames, totals: SentTotals) {
    this.#frames = frames;
    this.#totals = totals;
  }

  attach({ credit, context, aliases }: BodyWriterParts): void {
    this.#credit = credit;
    this.#context = context;
    this.aliases = aliases;
  }

  /** The frame that has to precede the next one of a queue: it announces the number of the name that the body is for. */
  announce({ first: item, offset }: SendQueue): Uint8Array | undefined {
    if (offset > 0 || 'frame' in item || 'bare' in item || item.address === undefined) return undefined;
    item.alias = this.aliases?.aliasOf(item.address);
    if (item.alias !== undefined || this.aliases === undefined) return undefined;
    return this.#frames.appendCopy(this.aliases.announce(item.address));
  }

  /** The next frame of a queue, or `undefined` if it has no credit for any. */
  write(queue: SendQueue): Uint8Array | string | undefined {
    const item = queue.first;
    if ('bare' in item) {
      const { bare, body } = item;
      queue.resize(-bare.length);
      queue.shift();
      this.#count(body.codec, body.bytes.length, body.originalLength, 'messages').tokens += countTokens(
        body.codec,
        body.bytes,
      );
      body.onWritten?.(0);
      return bare;
    }
    if ('frame' in item) {
      const { frame } = item;
      queue.resize(-frame.length);
      queue.shift();
      return this.#frames.appendCopy(this.#context?.endWith(queue.streamId, frame) ?? frame);
    }
    if (hasSource(item) || item.deferred === undefined) return this.#writeBody(queue, item);
    const coded = this.#encode(queue, item);
    return coded && this.#writeBody(queue, coded);
  }

  /** Codes a deferred body as soon as there is credit for its first bytes. */
  #encode(queue: SendQueue, body: OutgoingBody): OutgoingBody | undefined {
    const { length } = body.bytes;
    const needed = bodyHeadLength(body, length, false) + BODY_CHARGE + MIN_FIRST_PIECE;
    if (this.#credit !== undefined && this.#credit.available(queue.streamId) < needed) return undefined;
    const written = this.#context?.encode(body) ?? { ...body, deferred: undefined };
    const isKept = this.#frames.messages !== undefined && body.kind === LinkKind.MESSAGE;
    const coded = isKept ? { ...written, uncoded: body } : written;
    queue.replaceFirst(coded);
    queue.resize(coded.bytes.length - length);
    return coded;
  }

  #writeBody(queue: SendQueue, body: OutgoingBody | StreamedBody): Uint8Array | undefined {
    const isStreamed = hasSource(body);
    const total = isStreamed ? body.totalLength : body.bytes.length;
    const start = queue.offset;
    const most = start + (isStreamed ? Math.min(body.waiting, MAX_PIECE_SIZE) : MAX_FRAGMENT_SIZE);
    const end = this.#cut(body, total, start, Math.min(total, most));
    if (end === undefined) return undefined;
    const isLast = end === total;
    queue.resize(start - end);
    queue.offset = end;

    const frames = this.#frames;
    const length = bodyFrameLength(body, total, start, end);
    frames.reserve(length);
    const { target } = frames;
    const at = writeBodyHead(target, frames.offset, body, total, start, end);
    if (isStreamed) body.take(target, at, end - start);
    else target.set(end - start === total ? body.bytes : body.bytes.subarray(start, end), at);

    if (isLast) {
      queue.shift();
      const counts = this.#count(body.codec, total, body.originalLength, ROLES[body.kind]);
      if (!isStreamed) counts.tokens += countTokens(body.codec, body.bytes);
      this.#context?.handleWritten(body);
    } else if (isStreamed) {
      queue.awaitingSource = body.waiting === 0;
    }
    const frame = frames.append(length);
    if (!isLast) return frame;
    if (body.kind === LinkKind.MESSAGE && !isStreamed)
      frames.messages?.add(body.uncoded ?? body, frames.count);
    body.onWritten?.(frames.count);
    return frame;
  }

  /**
   * Returns where the frame that begins at `start` ends: at `end`, or earlier if there is not enough credit.
   * Spends the credit. Returns `undefined` if there is none for a single byte.
   */
  #cut(body: OutgoingBody | StreamedBody, total: number, start: number, end: number): number | undefined {
    const credit = this.#credit;
    const available = credit?.available(body.streamId) ?? Infinity;
    let head = 0;
    if (start === 0) {
      head = bodyHeadLength(body, total, true) + BODY_CHARGE;
      const fits = end === total && head + end <= available;
      if (!fits) {
        head = bodyHeadLength(body, total, false) + BODY_CHARGE;
        if (available - head < 1) return undefined;
      }
    } else if (available < 1) {
      return undefined;
    }
    const cut = Math.min(end, start + available - head);
    const expands = cut === total && body.codec === BodyCodec.CONTEXT;
    const expansion = expands ? expansionOf(body.originalLength, total) : 0;
    credit?.spend(body.streamId, head + cut - start + expansion);
    return cut;
  }

  #count(codec: BodyCodec, codedBytes: number, contentBytes: number, role?: BodyRole): BodyCounts {
    this.#totals.sentBodies ??= new BodyCounts();
    this.#totals.sentBodies.add(codec, codedBytes, contentBytes, role);
    return this.#totals.sentBodies;
  }
}
