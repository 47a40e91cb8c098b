import { ProtocolError } from '@parlance/protocol';
import { isCount } from '@parlance/protocol/internal';
import type { Membership } from './local-group.js';
import { MAX_DATA, MAX_GROUPS } from './options.js';

/** Nodes whose messages one member may have heard. */
const MAX_SENDERS = 10_000;
/** UTF-16 units of the name of a group. */
export const MAX_NAME = 256;
/** UTF-16 units of the place where a page of members begins. A client may have it, and give back another one. */
export const MAX_AFTER = 128;

/** A membership, as it goes with its session. */
export interface SavedMembership {
  readonly name: string;
  readonly since: number;
  readonly data: string | undefined;
  readonly dataAt: number;
  /** The messages that its client will have when all that is queued is written: the last number of each sender. */
  readonly marks?: readonly (readonly [sender: string, mark: number])[];
}

/** `undefined` for none. */
export function savedOf(memberships: ReadonlyMap<string, Membership> | undefined): unknown {
  if (memberships === undefined || memberships.size === 0) return undefined;
  return [...memberships].map(([name, membership]) => {
    const { group, since, data, dataAt } = membership;
    return [name, since, data ?? null, dataAt, [...group.marksOf(membership)].flat()];
  });
}

/** @throws {ProtocolError} `bad_message`. */
export function readSaved(saved: unknown): readonly SavedMembership[] {
  return listOf(saved, MAX_GROUPS).map((each) => {
    const [name, since, data, dataAt, flat] = listOf(each, 5);
    if (typeof name !== 'string' || name === '' || name.length > MAX_NAME) throw malformed();
    if (!isCount(since) || !isCount(dataAt)) throw malformed();
    if (data !== null && (typeof data !== 'string' || data.length > MAX_DATA)) throw malformed();
    if (typeof data === 'string') readData(data);
    const values = listOf(flat, 2 * MAX_SENDERS);
    const marks: [string, number][] = [];
    for (let i = 0; i < values.length; i += 2) {
      const [sender, mark] = [values[i], values[i + 1]];
      if (typeof sender !== 'string' || !/^[0-9A-Za-z]{6}$/.test(sender) || !isCount(mark)) throw malformed();
      marks.push([sender, mark]);
    }
    return { name, since, data: data ?? undefined, dataAt, marks };
  });
}

/** The value of the data of a member. @throws {ProtocolError} `bad_message`. */
export function readData(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed();
  }
}

function listOf(value: unknown, most: number): readonly unknown[] {
  if (Array.isArray(value) && value.length <= most) return value;
  throw malformed();
}

function malformed(): ProtocolError {
  return new ProtocolError('bad_message', 'what a node says of the members of groups is malformed');
}
