import { Subprotocol } from '../base/constants.js';
import type { CodedBody } from '../codec/body.js';
import { encodeControl, encodeControlJson } from '../control/envelope.js';
import type { ControlMessage, DataPayload } from '../control/messages.js';
import type { Outbox } from '../link/outbox.js';

/** A control message without what all of them carry. */
type Said = ControlMessage extends infer Message
  ? Message extends ControlMessage
    ? Pick<Message, 'type' | 'payload'>
    : never
  : never;

/** Says control messages in the form of the subprotocol. */
export class ControlWriter {
  /** Of the session, from ACCEPT on. */
  sessionId: string | null = null;
  readonly #outbox: Outbox;
  readonly #isBinary: boolean;
  readonly #timeOrigin: number;

  /** @param timeOrigin Unix milliseconds at clock reading 0. */
  constructor(outbox: Outbox, subprotocol: Subprotocol, timeOrigin = 0) {
    this.#outbox = outbox;
    this.#isBinary = subprotocol === Subprotocol.BINARY;
    this.#timeOrigin = timeOrigin;
  }

  /** Says a message ahead of all data. */
  say(said: Said, now: number): void {
    this.#outbox.pushControl(this.#encode(said, this.sessionId, now));
  }

  /** Says a message of the handshake, which names no session yet, or not any more. */
  sayWithoutSession(said: Said, now: number): void {
    this.#outbox.pushControl(this.#encode(said, null, now));
  }

  /** Says DATA, which takes its turn behind what waits. */
  sayData(payload: DataPayload, body: CodedBody, now: number): void {
    this.#outbox.pushBare(this.#encode({ type: 'DATA', payload }, this.sessionId, now), body);
  }

  #encode(said: Said, sessionId: string | null, now: number): Uint8Array | string {
    const timestamp = Math.max(0, Math.round(this.#timeOrigin + now));
    const message = { ...said, sessionId, timestamp } as ControlMessage;
    return this.#isBinary ? encodeControl(message) : encodeControlJson(message);
  }
}
