import { get } from '../../base/fields.js';
import { ValueList } from '../../base/value-list.js';
import type { SessionBegin } from '../durable-session.js';
import {
  agreedFields,
  agreedOf,
  CONTAINER_FORMAT,
  decodeSnapshot,
  encodeSnapshot,
  MAX_ID,
} from '../snapshot.js';
import type { SessionOptions } from '../types.js';

/** In the form of a snapshot. */
export function encodeBegin({ id, ...agreed }: SessionBegin): Uint8Array {
  return encodeSnapshot({ id, ...agreedFields(agreed) }, CONTAINER_FORMAT);
}

/**
 * @throws {ProtocolError} as `readSnapshot`; `unsupported` if a server with these options cannot keep the agreement.
 */
export function readBegin(bytes: Uint8Array, options: SessionOptions): SessionBegin {
  const fields = decodeSnapshot(bytes, CONTAINER_FORMAT);
  const list = new ValueList([get(fields, 'id')], 'the session');
  return { id: list.text(MAX_ID), ...agreedOf(fields, options) };
}
