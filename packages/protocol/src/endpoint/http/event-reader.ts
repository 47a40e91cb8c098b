import { createParser, type EventSourceParser } from 'eventsource-parser';
import { ProtocolError } from '../../base/errors.js';
import { encodeEventPart } from './events.js';

/** UTF-16 units that the lines of an event may have beyond its limit, for the names of fields. */
const NAMES = 1024;

/**
 * Turns a stream of server-sent events into the parts of a reply, one for each event. Comments and reconnection times belong to the
 * connection that they were for and are dropped; {@link hasComment} says that there was one.
 */
export class EventReader {
  readonly #parser: EventSourceParser;
  readonly #maxLength: number;
  #parts: string[] = [];
  /** A comment has come since this was reset. */
  hasComment = false;
  /** The lines after the last blank line. */
  #open: string[] = [];
  #openLength = 0;
  #isAtLineStart = true;
  #endsWithReturn = false;

  /** @param maxLength longest event, in UTF-16 units. */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
    this.#parser = createParser({
      onEvent: (event) => this.#parts.push(encodeEventPart(event)),
      onComment: () => {
        this.hasComment = true;
      },
      // Unknown fields are ignored, as the specification requires.
      onError: () => {},
    });
  }

  /**
   * @param text without the byte order mark that a stream may begin with.
   * @throws {ProtocolError} `message_too_large` if an event is longer than allowed, after those before it.
   */
  *push(text: string): Generator<string> {
    // A carriage return ends its line at once; a line feed behind it belongs to it.
    const isSplit = this.#endsWithReturn && text.startsWith('\n');
    if (isSplit && this.#openLength > 0) this.#hold('\n');
    const lines = isSplit ? text.slice(1) : text;
    if (text !== '') this.#endsWithReturn = lines.endsWith('\r');
    if (lines === '') return;
    this.#parser.feed(this.#endsWithReturn ? `${lines}\n` : lines);
    this.#track(lines);
    const parts = this.#parts;
    this.#parts = [];
    for (const part of parts) {
      if (part.length > this.#maxLength) throw this.#tooLarge();
      yield part;
    }
    if (this.#openLength > this.#maxLength + NAMES) throw this.#tooLarge();
  }

  /** The text after the last blank line, as it came; empty if there is none. */
  rest(): string {
    return this.#open.join('');
  }

  #track(text: string): void {
    let start = 0;
    let closed = -1;
    for (const { 0: end, index } of text.matchAll(/\r\n?|\n/g)) {
      const isBlank = index === start && (start > 0 || this.#isAtLineStart);
      start = index + end.length;
      if (isBlank) closed = start;
    }
    this.#isAtLineStart = start === text.length;
    if (closed >= 0) {
      this.#open = [];
      this.#openLength = 0;
    }
    if (closed < text.length) this.#hold(closed < 0 ? text : text.slice(closed));
  }

  #hold(text: string): void {
    this.#open.push(text);
    this.#openLength += text.length;
  }

  #tooLarge(): ProtocolError {
    return new ProtocolError('message_too_large', `an event of more than ${this.#maxLength} characters`);
  }
}
