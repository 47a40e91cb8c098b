import { Subprotocol } from '../base/constants.js';
import type { CodedBody } from '../codec/body.js';
import { encodeControl, encodeControlJson } from '../control/envelope.js';
import type { ControlMessage, DataPayload } from '../control/messages.js';
import type { Outbox } from '../link/outbox.js';

/** A control message without the fields that all of them have. */
type Outgoing = ControlMessage extends infer Message
  ? Message extends ControlMessage
    ? Pick<Message, 'type' | 'payload'>
    : never
  : never;

/** Writes control messages in the form of the subprotocol. */
export class ControlWriter {
  /** Set from ACCEPT on. */
  sessionId: string | null = null;
  readonly #outbox: Outbox;
  readonly #clock: { readonly now: number };
  readonly #isBinary: boolean;
  readonly #timeOrigin: number;

  /** @param timeOrigin Unix milliseconds at clock reading 0. */
  constructor(outbox: Outbox, clock: { readonly now: number }, subprotocol: Subprotocol, timeOrigin = 0) {
    this.#outbox = outbox;
    this.#clock = clock;
    this.#isBinary = subprotocol === Subprotocol.BINARY;
    this.#timeOrigin = timeOrigin;
  }

  /** Sends a message ahead of all data. */
  send(message: Outgoing): void {
    this.#outbox.pushControl(this.#encode(message, this.sessionId));
  }

  /** Sends HELLO or REJECT, which name no session. */
  sendUnbound(message: Outgoing): void {
    this.#outbox.pushControl(this.#encode(message, null));
  }

  /** Sends DATA, which takes its turn among the bodies that wait. */
  sendData(payload: DataPayload, body: CodedBody): void {
    this.#outbox.pushBare(this.#encode({ type: 'DATA', payload }, this.sessionId), body);
  }

  #encode(fields: Outgoing, sessionId: string | null): Uint8Array | string {
    const timestamp = Math.max(0, Math.round(this.#timeOrigin + this.#clock.now));
    const message = { ...fields, sessionId, timestamp } as ControlMessage;
    return this.#isBinary ? encodeControl(message) : encodeControlJson(message);
  }
}
