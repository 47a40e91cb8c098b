import { createParser, type EventSourceParser } from 'eventsource-parser';
import { ProtocolError } from '../../base/errors.js';
import { encodeEventPart } from './events.js';

/**
 * Turns a stream of server-sent events into the parts of a reply, one for each event. Comments and reconnection times
 * belong to the connection that they were for and are dropped, and so is an incomplete event at the end.
 */
export class EventReader {
  readonly #parser: EventSourceParser;
  readonly #maxLength: number;
  #parts: string[] = [];
  #isTooLong = false;
  #endsWithReturn = false;

  /** @param maxLength longest incomplete event, in UTF-16 units. */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
    this.#parser = createParser({
      maxBufferSize: maxLength,
      onEvent: (event) => this.#parts.push(encodeEventPart(event)),
      onError: ({ type }) => {
        // Unknown fields are ignored, as the specification requires.
        if (type === 'max-buffer-size-exceeded') this.#isTooLong = true;
      },
    });
  }

  /**
   * @param text without the byte order mark that a stream may begin with.
   * @throws {ProtocolError} `message_too_large` if an event is longer than allowed, after those before it.
   */
  *push(text: string): Generator<string> {
    if (text === '') return;
    this.#endsWithReturn = text.endsWith('\r');
    this.#parser.feed(text);
    const parts = this.#parts;
    this.#parts = [];
    yield* parts;
    if (!this.#isTooLong) return;
    throw new ProtocolError('message_too_large', `an event of more than ${this.#maxLength} characters`);
  }

  /** The stream is over: a line feed that may have followed its last carriage return does not come. */
  *end(): Generator<string> {
    if (this.#endsWithReturn) yield* this.push('\n');
  }
}
