import type { Link, LinkEnd } from '../../cluster/link/link.js';
import { countField, type LinkMessage, malformed } from '../../cluster/link/message.js';
import { GROUPS } from './messages.js';
import { WINDOW } from './outflow.js';

/** Messages and bytes after which this node confirms them at once; else with the next tick. */
const ANSWER_EVERY = 256;
const ANSWER_BYTES = WINDOW / 8;

/** Messages of another node to this one about groups, over all links that it opens. */
export class Inflow {
  readonly #onMessage: (message: LinkMessage) => void;
  #stream: number | undefined;
  #last = 0;
  #link: Link | undefined;
  #unanswered = 0;
  #unansweredBytes = 0;

  /** @param onMessage takes each message once, without its number. @throws {ProtocolError} `bad_message`. */
  constructor(onMessage: (message: LinkMessage) => void) {
    this.#onMessage = onMessage;
  }

  /** The other node begins to use a link. */
  accept(link: Link): LinkEnd {
    let hasBegun = false;
    return {
      handle: (message) => {
        if (message.type === 'begin') {
          hasBegun = true;
          this.#link = link;
          this.#begin(message);
        } else if (!hasBegun) throw malformed();
        else if (this.#link === link) this.#handle(message);
      },
      handleOver: () => {
        if (this.#link === link) this.#link = undefined;
      },
    };
  }

  /** @throws {ProtocolError} `bad_message`. */
  #begin({ fields }: LinkMessage): void {
    const [stream, first] = [countField(fields[0]), countField(fields[1])];
    if (stream !== this.#stream) this.#last = first - 1;
    this.#stream = stream;
    this.#answer();
  }

  /** @throws {ProtocolError} `bad_message`. */
  #handle(message: LinkMessage): void {
    const [number, ...fields] = message.fields;
    const given = countField(number);
    this.#unanswered++;
    this.#unansweredBytes += message.bytes.length;
    if (given > this.#last + 1) throw malformed();
    if (given === this.#last + 1) {
      this.#last = given;
      this.#onMessage({ ...message, fields });
    }
    if (this.#unanswered >= ANSWER_EVERY || this.#unansweredBytes >= ANSWER_BYTES) this.#answer();
  }

  handleTick(): void {
    if (this.#unanswered > 0) this.#answer();
  }

  #answer(): void {
    this.#unanswered = 0;
    this.#unansweredBytes = 0;
    this.#link?.answer(GROUPS, 'got', [this.#last]);
  }
}
