import { concatBytes } from '../../base/bytes.js';
import { ProtocolError } from '../../base/errors.js';
import { utf8Length } from '../../base/text.js';
import { systemClock } from '../../platform/clock.js';
import { EventReader } from './event-reader.js';
import { encodeAsIs } from './events.js';
import { Pieces } from './pieces.js';

/** Milliseconds between two parts that only say that the source lives. */
const SIGN_MS = 1_000;

export interface EventPartsOptions {
  /** Bytes of the longest event. */
  readonly maxSize: number;
  /**
   * A comment becomes an empty part, at most one a second, if no event came with it. A kept reply has none, as its readers count parts
   * as events.
   */
  readonly hasSigns: boolean;
  /** @default the time of the system clock */
  readonly now?: (() => number) | undefined;
}

/**
 * Turns the bytes of a response that is labelled as events into the parts of its reply: each event is a part, and what is no event
 * stands there as it is: a whole body that does not begin like events, and what follows the last blank line.
 */
export class EventParts {
  readonly #options: EventPartsOptions;
  readonly #reader: EventReader;
  readonly #decoder = new TextDecoder();
  readonly #now: () => number;
  #signAt = Number.NEGATIVE_INFINITY;
  /** The beginning, until it shows what the body is. */
  #unknown: Uint8Array | undefined = new Uint8Array(0);
  /** A body that is not events. */
  #other: Pieces | undefined;

  constructor(options: EventPartsOptions) {
    this.#options = options;
    this.#reader = new EventReader(options.maxSize);
    this.#now = options.now ?? systemClock.now;
  }

  /** @throws {ProtocolError} `message_too_large` if an event is longer than allowed, after those before it. */
  *push(chunk: Uint8Array): Generator<string | Uint8Array> {
    if (this.#unknown === undefined) return yield* this.#read(chunk);
    const begun = this.#unknown.length === 0 ? chunk : concatBytes([this.#unknown, chunk]);
    const isEvents = beginsLikeEvents(begun);
    // The chunk belongs to someone else.
    this.#unknown = isEvents === undefined ? begun.slice() : undefined;
    if (isEvents === undefined) return;
    if (!isEvents) this.#other = new Pieces(true);
    yield* this.#read(begun);
  }

  /** The body is over. */
  *end(): Generator<string | Uint8Array> {
    if (this.#unknown !== undefined) {
      if (this.#unknown.length > 0) yield encodeAsIs(this.#unknown);
      return;
    }
    if (this.#other !== undefined) {
      for (const piece of this.#other.end()) yield encodeAsIs(piece);
      return;
    }
    yield* this.#reader.push(this.#decoder.decode());
    const rest = this.#reader.rest();
    if (rest !== '') yield encodeAsIs(rest);
  }

  *#read(chunk: Uint8Array): Generator<string | Uint8Array> {
    if (this.#other !== undefined) {
      for (const piece of this.#other.push(chunk)) yield encodeAsIs(piece);
      return;
    }
    let hasEvents = false;
    for (const part of this.#reader.push(this.#decoder.decode(chunk, { stream: true }))) {
      this.#check(part);
      hasEvents = true;
      yield part;
    }
    if (this.#reader.hasComment && !hasEvents && this.#options.hasSigns && this.#isTimeForSign()) yield '';
    this.#reader.hasComment = false;
  }

  #check(part: string): void {
    const { maxSize } = this.#options;
    // A UTF-16 unit takes at most 3 bytes.
    if (part.length * 3 <= maxSize || utf8Length(part) <= maxSize) return;
    throw new ProtocolError('message_too_large', `an event of more than ${maxSize} bytes`);
  }

  #isTimeForSign(): boolean {
    const now = this.#now();
    if (now - this.#signAt < SIGN_MS) return false;
    this.#signAt = now;
    return true;
  }
}

const NAMES = ['data', 'event', 'id', 'retry', ':'] as const;
/** Bytes of blank lines that do not tell what follows. */
const MAX_BLANKS = 4096;

/** Whether a body begins with a line of events; `undefined` if that is not known yet. */
function beginsLikeEvents(bytes: Uint8Array): boolean | undefined {
  const text = new TextDecoder().decode(bytes.subarray(0, MAX_BLANKS)).replace(/^[\r\n]+/, '');
  const [line = ''] = text.split(/[\r\n]/, 1);
  if (/^(?:(?:data|event|id|retry):|:)/.test(line)) return true;
  const isWhole = line.length < text.length;
  if (isWhole) return NAMES.some((name) => name === line);
  const mayBe = bytes.length < MAX_BLANKS && NAMES.some((name) => name.startsWith(line));
  // The beginning of a byte order mark decodes to nothing that an event begins with.
  return mayBe || (bytes.length < 3 && bytes[0] === 0xef) ? undefined : false;
}
