import { ProtocolError } from '../../base/errors.js';
import { type Fields, get, isCount, isFields } from '../../base/fields.js';
import { parseJson } from '../../base/json.js';
import type { Limits } from '../../base/limits.js';

/**
 * Reports one-way messages to another client that were not delivered. Requests need no report: they fail instead.
 */
export interface Undelivered {
  /** The receiver, as named in `to`. */
  readonly to: string;
  /**
   * `not_sent`: the messages never reached the receiver's session. `unknown`: they were sent, but that session
   * was lost before it acknowledged them.
   */
  readonly outcome: 'not_sent' | 'unknown';
  /** An error code: `unknown_agent`, `forbidden`, `peer_gone`, or why the body could not be relayed. */
  readonly code: string;
  /**
   * The number of the first message, counting the messages of this session to this receiver from 1; `undefined`
   * if the server no longer counts them, because this session has sent to very many receivers.
   */
  readonly first: number | undefined;
  /** The number of messages. */
  readonly count: number;
}

/** Encodes the body of a report, in which the code is `reason`. */
export function encodeUndelivered({ to, outcome, code, first, count }: Undelivered): string {
  return JSON.stringify({ to, outcome, reason: code, first, count });
}

/** @throws {ProtocolError} `bad_message`, `bad_json`. */
export function decodeUndelivered(json: string, limits: Limits): Undelivered {
  const value: unknown = parseJson(json, limits);
  const fields: Fields = isFields(value) ? value : {};
  const [to, outcome, code] = [get(fields, 'to'), get(fields, 'outcome'), get(fields, 'reason')];
  const [first, count] = [get(fields, 'first'), get(fields, 'count')];
  if (
    typeof to !== 'string' ||
    typeof code !== 'string' ||
    (outcome !== 'not_sent' && outcome !== 'unknown') ||
    !isCount(count)
  ) {
    throw new ProtocolError('bad_message', 'a delivery report must have to, outcome, reason and count');
  }
  return { to, outcome, code, first: isCount(first) ? first : undefined, count };
}
