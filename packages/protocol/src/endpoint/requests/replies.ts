import { ProtocolError } from '../../base/errors.js';
import { booleanField, countField, get, isFields, stringField } from '../../base/fields.js';
import type { Message } from '../messages/message.js';
import type { ReplyInfo } from './follow.js';

const STATES: readonly ReplyInfo['state'][] = ['running', 'complete', 'failed'];

/**
 * Reads the server's list of kept replies.
 *
 * @param parts each a JSON list.
 * @throws {ProtocolError} `bad_message`.
 */
export async function readReplies(parts: AsyncIterable<Message>): Promise<ReplyInfo[]> {
  const replies: ReplyInfo[] = [];
  for await (const part of parts) {
    const list: unknown = part.json();
    if (!Array.isArray(list)) throw new ProtocolError('bad_message', 'a list of replies must be a JSON list');
    for (const entry of list) replies.push(readReply(entry));
  }
  return replies;
}

function readReply(entry: unknown): ReplyInfo {
  if (!isFields(entry)) throw new ProtocolError('bad_message', 'a listed reply must be an object');
  const state = STATES.find((known) => known === get(entry, 'state'));
  const id = stringField(entry, 'id', '', 128);
  if (state === undefined || id === '')
    throw new ProtocolError('bad_message', 'a listed reply must have an id and a state');
  const expiresAt = countField(entry, 'expires_at', 0);
  return {
    id,
    name: stringField(entry, 'name', '', 256) || undefined,
    isOwn: booleanField(entry, 'own', false),
    state,
    parts: countField(entry, 'parts', 0),
    startedAt: countField(entry, 'started_at', 0),
    expiresAt: expiresAt === 0 ? undefined : expiresAt,
  };
}

/** The JSON of an entry of the list. */
export function replyFields({ id, name, isOwn, state, parts, startedAt, expiresAt }: ReplyInfo): object {
  return { id, name, own: isOwn, state, parts, started_at: startedAt, expires_at: expiresAt };
}
