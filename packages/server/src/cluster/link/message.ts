import { ProtocolError } from '@parlance/protocol';
import { isCount } from '@parlance/protocol/internal';

/** A message between two nodes: the length of its head in 4 bytes, the head as a JSON list, and bytes. */
export interface LinkMessage {
  /** The service that reads it at the other node. */
  readonly service: string;
  readonly type: string;
  readonly fields: readonly unknown[];
  readonly bytes: Uint8Array;
}

/** Bytes of the head. */
const MAX_HEAD = 16 * 1024;
const LENGTH_BYTES = 4;

export function encodeLinkMessage(
  service: string,
  type: string,
  fields: readonly unknown[],
  ...parts: readonly Uint8Array[]
): Uint8Array {
  const head = Buffer.from(JSON.stringify([service, type, ...fields]));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, ...parts]);
}

/** @throws {ProtocolError} `bad_message`. */
export function decodeLinkMessage(data: Uint8Array | string): LinkMessage {
  if (typeof data === 'string' || data.length < LENGTH_BYTES) throw malformed();
  const message = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const length = message.readUInt32BE();
  const end = LENGTH_BYTES + length;
  if (length > MAX_HEAD || end > message.length) throw malformed();
  let head: unknown;
  try {
    head = JSON.parse(message.toString('utf8', LENGTH_BYTES, end));
  } catch {
    throw malformed();
  }
  if (!Array.isArray(head)) throw malformed();
  const [service, type, ...fields] = head;
  if (typeof service !== 'string' || typeof type !== 'string') throw malformed();
  // Not a Buffer, whose `slice` is a view.
  return {
    service,
    type,
    fields,
    bytes: new Uint8Array(data.buffer, data.byteOffset + end, data.length - end),
  };
}

/** @throws {ProtocolError} `bad_message`. */
export function countField(value: unknown): number {
  if (isCount(value)) return value;
  throw malformed();
}

/** @throws {ProtocolError} `bad_message`. */
export function textField(value: unknown): string {
  if (typeof value === 'string') return value;
  throw malformed();
}

/** @throws {ProtocolError} `bad_message`, also if the text has more than `most` characters. */
export function shortField(value: unknown, most: number): string {
  const text = textField(value);
  if (text.length <= most) return text;
  throw malformed();
}

export function malformed(): ProtocolError {
  return new ProtocolError('bad_message', 'a message of another node is malformed');
}
