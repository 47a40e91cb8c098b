import { ProtocolError } from '../../base/errors.js';
import { encodeEventPart } from './events.js';

/**
 * Turns a stream of server-sent events into the parts of a reply, one for each event. Comments and reconnection times
 * belong to the connection that they were for and are dropped, and so is an incomplete event at the end.
 */
export class EventReader {
  readonly #maxLength: number;
  /** The last line, which is not complete. */
  #rest = '';
  /** Up to where {@link #rest} has no line end. */
  #searched = 0;
  #isFirst = true;
  #data: string[] = [];
  #dataLength = 0;
  #event: string | undefined;
  #id: string | undefined;

  /** @param maxLength longest event, in UTF-16 units. */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** @throws {ProtocolError} `message_too_large` if an event is longer than allowed. */
  *push(text: string): Generator<string> {
    let rest = this.#rest + text;
    if (this.#isFirst && rest !== '') {
      this.#isFirst = false;
      if (rest.startsWith('\ufeff')) rest = rest.slice(1);
    }
    let begin = 0;
    const ends = /\r\n|\r|\n/g;
    // A line feed may follow a carriage return that was the last character.
    ends.lastIndex = Math.max(0, this.#searched - 1);
    for (let end = ends.exec(rest); end !== null; end = ends.exec(rest)) {
      if (end[0] === '\r' && ends.lastIndex === rest.length) break;
      const part = this.#line(rest.slice(begin, end.index));
      begin = ends.lastIndex;
      if (part !== undefined) yield part;
    }
    this.#rest = rest.slice(begin);
    this.#searched = this.#rest.length;
    this.#assertLength(this.#rest.length);
  }

  /** The stream is over. */
  *end(): Generator<string> {
    if (this.#rest.endsWith('\r')) yield* this.push('\n');
  }

  /** @returns the part, if the line ends an event. */
  #line(line: string): string | undefined {
    if (line === '') return this.#dispatch();
    this.#assertLength(line.length);
    const colon = line.indexOf(':');
    if (colon === 0) return undefined;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'data') {
      this.#data.push(value);
      this.#dataLength += value.length + 1;
    } else if (name === 'event') this.#event = value === '' ? undefined : value;
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
    return undefined;
  }

  #dispatch(): string | undefined {
    const [data, event, id] = [this.#data, this.#event, this.#id];
    this.#data = [];
    this.#dataLength = 0;
    this.#event = undefined;
    this.#id = undefined;
    return data.length === 0 ? undefined : encodeEventPart({ data: data.join('\n'), event, id });
  }

  #assertLength(more: number): void {
    if (this.#dataLength + more <= this.#maxLength) return;
    const message = `an event of more than ${this.#maxLength} characters`;
    throw new ProtocolError('message_too_large', message);
  }
}
