import { BodyCodec, type CodedBody, type ReceivedBody, type Undelivered } from '@parlance/protocol';
import { isCount } from '@parlance/protocol/internal';
import { countField, malformed, textField } from '../../cluster/link/message.js';

/** The name of the service of a link. */
export const AGENTS = 'agents';

/**
 * Messages of two nodes about the bodies of their agents. One node dials and passes on what its agents send; the
 * other one answers.
 *
 * From the node of the sender: `open` names a sender by a number, and `use` a way to a session, on which messages count from
 * 1 on; `message`, `request` and `tensor` begin something on a way (a message with its number in the session of its sender, and
 * whether it comes again), `piece` continues a tensor, `cancel` ends a request, `read` returns credit of replies,
 * `close` ends a sender, `leave` a way. From the node of the receiver: `ready` lets messages begin that wait for a way,
 * and `hold` lets them wait again, which `holding` confirms; `taken` says that a session has a message, `written`,
 * `confirmed`, `refused` and `lost` are about messages on a way, `credit` about a request; `part`, `response`, `end`,
 * `fail` and `reject` answer it; `gone` ends a way, and `again` as well, for a session that continues: messages that
 * are not written are sent again on another way. From the former node of a session that has moved to the other one:
 * `account` says that it keeps account of messages of or to the session, and names a way to it; `report` tells the
 * session of a message of its that is lost, `settled` says that it knows the fate of all others.
 */
export type RelayMessageType =
  | 'open'
  | 'use'
  | 'leave'
  | 'ready'
  | 'hold'
  | 'holding'
  | 'close'
  | 'message'
  | 'request'
  | 'tensor'
  | 'piece'
  | 'cancel'
  | 'read'
  | 'taken'
  | 'written'
  | 'confirmed'
  | 'refused'
  | 'credit'
  | 'part'
  | 'response'
  | 'end'
  | 'fail'
  | 'reject'
  | 'gone'
  | 'again'
  | 'lost'
  | 'account'
  | 'report'
  | 'settled';

/** Memory that a body takes besides its bytes. */
const BODY_OVERHEAD = 64;
const NOTHING = new Uint8Array(0);

export type BodyFields = readonly [codec: number, originalLength: number, secret: number, metadata: number];

/** The fields of a body, and its bytes. */
export function bodyParts({ codec, originalLength, secret, metadata, bytes }: CodedBody): {
  readonly fields: BodyFields;
  readonly parts: readonly [Uint8Array, Uint8Array];
  readonly charge: number;
} {
  const map = metadata ?? NOTHING;
  const fields: BodyFields = [
    codec,
    originalLength,
    secret ? 1 : 0,
    metadata === undefined ? -1 : map.length,
  ];
  return { fields, parts: [map, bytes], charge: chargeOf(map.length + bytes.length) };
}

/** @throws {ProtocolError} `bad_message`. */
export function readBody(fields: readonly unknown[], bytes: Uint8Array): ReceivedBody {
  const [codec, originalLength, secret, metadata] = fields;
  const isMetadata = metadata === -1 || (isCount(metadata) && (metadata as number) <= bytes.length);
  if (!isCount(codec) || !isCount(originalLength) || !isMetadata) throw malformed();
  const length = Math.max(0, metadata as number);
  const content = bytes.subarray(length);
  return {
    codec: codec as BodyCodec,
    bytes: content,
    // The other node has decoded it.
    content: codec === BodyCodec.CONTEXT ? content : undefined,
    originalLength: originalLength as number,
    secret: secret === 1,
    metadata: metadata === -1 ? undefined : bytes.subarray(0, length),
    charge: chargeOf(bytes.length),
  };
}

/** The charge for bytes until the other node says that they are written. */
export function chargeOf(bytes: number): number {
  return bytes + BODY_OVERHEAD;
}

const OUTCOMES: readonly string[] = ['unknown', 'not_sent'];
/** Characters of a name. */
const MAX_NAME = 1_024;

/** @throws {ProtocolError} `bad_message`. */
export function readReport([to, outcome, code, first, count]: readonly unknown[]): Undelivered {
  const name = textField(to);
  if (name.length > MAX_NAME || !OUTCOMES.includes(textField(outcome))) throw malformed();
  return {
    to: name,
    outcome: outcome as Undelivered['outcome'],
    code: textField(code),
    first: countField(first) === 0 ? undefined : (first as number),
    count: countField(count),
  };
}
