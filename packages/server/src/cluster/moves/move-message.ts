import { isProtocolError, ProtocolError } from '@parlance/protocol';
import { get, incarnationOf, isCount, isFields } from '@parlance/protocol/internal';

/**
 * What two nodes say about a session that moves, as JSON, over a connection that carries one session after another.
 *
 * Its node says `hold` if the other one leads its client: from `held` on, that one passes nothing more on. `snapshot` is
 * followed by the bytes, in binary messages. The answer is `taken`, or `refused`. To change its mind before, the node closes
 * the connection.
 */
export type MoveMessage =
  | { readonly type: 'hold'; readonly session: string }
  /** @param bytes of the client's messages that were passed on. */
  | { readonly type: 'held'; readonly bytes: number }
  /** @param sent bytes of messages that the client is to get before; @param epoch of the record. */
  | {
      readonly type: 'snapshot';
      readonly session: string;
      readonly size: number;
      readonly sent: number;
      readonly epoch: number;
    }
  /** @param more another session may follow on this connection. */
  | { readonly type: 'taken'; readonly more?: boolean }
  | { readonly type: 'refused'; readonly code: string; readonly message: string };

export type MoveMessageOf<Type extends MoveMessage['type']> = Extract<MoveMessage, { type: Type }>;

/** Characters of a message. */
const MAX_LENGTH = 4_096;
const MAX_TEXT = 256;

export function encodeMoveMessage(message: MoveMessage): string {
  return JSON.stringify(message);
}

/** @throws {ProtocolError} `bad_message`. */
export function decodeMoveMessage(data: Uint8Array | string): MoveMessage {
  if (typeof data !== 'string' || data.length > MAX_LENGTH) throw malformed('a short text');
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw malformed('JSON', cause);
  }
  if (!isFields(value)) throw malformed('an object');
  const fields = value;
  const count = (name: string): number => {
    const number = get(fields, name);
    if (isCount(number)) return number;
    throw malformed(`${name}, a whole number`);
  };
  const text = (name: string): string => {
    const found = get(fields, name);
    if (typeof found === 'string' && found.length <= MAX_TEXT) return found;
    throw malformed(`${name}, a short text`);
  };
  const session = (): string => {
    const id = text('session');
    if (incarnationOf(id) !== undefined) return id;
    throw malformed('session, an ID of a session of a cluster');
  };
  const type = get(fields, 'type');
  switch (type) {
    case 'hold':
      return { type, session: session() };
    case 'held':
      return { type, bytes: count('bytes') };
    case 'snapshot':
      return { type, session: session(), size: count('size'), sent: count('sent'), epoch: count('epoch') };
    case 'taken':
      return get(fields, 'more') === true ? { type, more: true } : { type };
    case 'refused':
      return { type, code: text('code'), message: text('message') };
    default:
      throw malformed('type, which is known');
  }
}

export function refusalMessage(error: unknown): MoveMessageOf<'refused'> {
  if (!isProtocolError(error)) return { type: 'refused', code: 'internal', message: 'the node failed' };
  return { type: 'refused', code: error.code, message: error.message.slice(0, MAX_TEXT) };
}

function malformed(expected: string, cause?: unknown): ProtocolError {
  return new ProtocolError('bad_message', `a message about a move must have ${expected}`, { cause });
}
