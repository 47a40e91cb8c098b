import { ProtocolError } from '../../base/errors.js';
import { type Fields, get, isCount, isFields } from '../../base/fields.js';
import { parseJson } from '../../base/json.js';
import type { Limits } from '../../base/limits.js';

/**
 * One-way messages to an agent that did not get through. Requests need no such report: they fail
 * themselves.
 */
export interface Undeliverable {
  readonly to: string;
  /**
   * `not_sent`: the agent's session never had them. `unknown`: they were handed over, and the session
   * was lost before it said that it has them.
   */
  readonly outcome: 'not_sent' | 'unknown';
  /** `unknown_agent`, `forbidden`, `peer_gone`, or why the body could not be passed on. */
  readonly reason: string;
  /**
   * Which messages, counting those of this session to this agent from 1 on; `undefined` where the server
   * has lost count, as this session has written to very many.
   */
  readonly first: number | undefined;
  readonly count: number;
}

/** The body of a report, as a server sends it. */
export function encodeUndeliverable(report: Undeliverable): string {
  return JSON.stringify(report);
}

/** @throws {ProtocolError} `bad_message`, `bad_json`. */
export function decodeUndeliverable(json: string, limits: Limits): Undeliverable {
  const value: unknown = parseJson(json, limits);
  const fields: Fields = isFields(value) ? value : {};
  const [to, outcome, reason] = [get(fields, 'to'), get(fields, 'outcome'), get(fields, 'reason')];
  const [first, count] = [get(fields, 'first'), get(fields, 'count')];
  if (
    typeof to !== 'string' ||
    typeof reason !== 'string' ||
    (outcome !== 'not_sent' && outcome !== 'unknown') ||
    !isCount(count)
  ) {
    throw new ProtocolError('bad_message', 'a report of delivery states to, outcome, reason and count');
  }
  return { to, outcome, reason, first: isCount(first) ? first : undefined, count };
}
