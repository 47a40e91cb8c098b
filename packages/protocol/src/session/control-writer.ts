import { Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { CodedBody } from '../codec/body.js';
import { encodeEnvelope } from '../control/forms.js';
import type { ControlMessage, DataPayload } from '../control/messages.js';
import type { Outbox } from '../link/outbox.js';
import type { PlainModule, SessionCode } from './channel-module.js';
import type { SessionOptions } from './types.js';

/** A control message without the fields that all of them have. */
type Outgoing = ControlMessage extends infer Message
  ? Message extends ControlMessage
    ? Pick<Message, 'type' | 'payload'>
    : never
  : never;

/** The session, as its control messages see it. */
interface Sender {
  /** `undefined` before ACCEPT. */
  readonly id: string | undefined;
  readonly options: Pick<SessionOptions, 'subprotocol' | 'timeOrigin'>;
  readonly code: SessionCode;
  readonly outbox: Outbox;
  readonly timers: { readonly now: number };
}

/** Writes control messages in the form of the subprotocol. */
export class ControlWriter {
  readonly #session: Sender;

  constructor(session: Sender) {
    this.#session = session;
  }

  /** Sends a message ahead of all data. */
  send(message: Outgoing): void {
    this.#session.outbox.pushControl(this.#encode(message, this.#session.id ?? null));
  }

  /** HELLO or REJECT, which name no session. */
  unbound(message: Outgoing): Uint8Array | string {
    return this.#encode(message, null);
  }

  /** Sends DATA, which takes its turn among the bodies that wait. */
  sendData(payload: DataPayload, body: CodedBody): void {
    this.#session.outbox.pushPlain(this.#encode({ type: 'DATA', payload }, this.#session.id ?? null), body);
  }

  #encode(fields: Outgoing, sessionId: string | null): Uint8Array | string {
    const { options, timers, code } = this.#session;
    const timestamp = Math.max(0, Math.round((options.timeOrigin ?? 0) + timers.now));
    return encodeControl({ ...fields, sessionId, timestamp } as ControlMessage, options.subprotocol, code);
  }
}

/** A control message in the form of the subprotocol. */
export function encodeControl(
  message: ControlMessage,
  subprotocol: Subprotocol,
  code: SessionCode,
): Uint8Array | string {
  return subprotocol === Subprotocol.BINARY
    ? encodeEnvelope(message, code.forms)
    : jsonEnvelopes(code.plain).encodeJsonEnvelope(message, code.forms);
}

/** @throws {ProtocolError} `codec_not_loaded`. */
export function jsonEnvelopes(plain: PlainModule | undefined): PlainModule {
  if (plain !== undefined) return plain;
  throw new ProtocolError('codec_not_loaded', 'the code of JSON envelopes is not loaded');
}
