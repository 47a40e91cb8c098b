import { platform } from '#platform';
import { Extension } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { type Fields, get, objectField, type StringMap } from '../base/fields.js';
import { msUntil, orNull, trimmed, ValueList } from '../base/value-list.js';
import { AgreementCache, type Answer } from '../control/agreement.js';
import { agreementValues, readAgreement } from '../control/agreement-snapshot.js';
import { laterCodecsField } from '../control/capabilities.js';
import { decodeMap, encodeMap } from '../control/maps.js';
import type { RateState } from '../link/rates.js';
import { lastStreamsOf } from '../link/snapshot.js';
import type { LastStreams } from '../link/streams.js';
import type { ResumeState } from './resume-token.js';
import type { ServerRoleState } from './server-role-state.js';
import type { SessionOptions } from './types.js';

/**
 * A session as bytes, for another process of the same service:
 *
 *     byte     format
 *     4 bytes  CRC-32 of the rest, little-endian
 *     rest     a MessagePack map
 *
 * Clocks differ between processes, so times are ages and milliseconds that are left. Empty fields are left
 * out. Other formats may differ in all of this: a build reads the formats that it lists and refuses all others.
 */

/** The format that this build writes, the only one that it reads. */
export const SNAPSHOT_FORMAT = 1;
/** The format of everything that a session takes elsewhere: moves, constants of its record, and bytes of features. */
export const CONTAINER_FORMAT = 2;
/** Bytes of a snapshot. */
export const MAX_SNAPSHOT_SIZE = 64 * 1024 * 1024;
/** Entries of all its lists and maps together. */
const MAX_SNAPSHOT_ENTRIES = 1024 * 1024;
const MAX_DEPTH = 16;
const HEAD_SIZE = 5;

/** @throws {ProtocolError} `message_too_large`. */
export function encodeSnapshot(
  fields: Fields,
  format = SNAPSHOT_FORMAT,
  maxSize = MAX_SNAPSHOT_SIZE,
): Uint8Array {
  const body = encodeMap(fields);
  assertSize(HEAD_SIZE + body.length, maxSize);
  const bytes = new Uint8Array(HEAD_SIZE + body.length);
  bytes[0] = format;
  new DataView(bytes.buffer).setUint32(1, platform.crc32(body), true);
  bytes.set(body, HEAD_SIZE);
  return bytes;
}

/** @throws {ProtocolError} as {@link readSnapshot}. */
export function decodeSnapshot(
  bytes: Uint8Array,
  known = SNAPSHOT_FORMAT,
  maxSize = MAX_SNAPSHOT_SIZE,
): Fields {
  const [format] = bytes;
  if (format === undefined) throw new ProtocolError('truncated', 'a snapshot has at least one byte');
  if (format !== known) {
    throw new ProtocolError('unknown_version', `format ${format} of a snapshot is not known; ${known} is`);
  }
  if (bytes.length < HEAD_SIZE) throw new ProtocolError('truncated', 'the snapshot ends within its head');
  assertSize(bytes.length, maxSize);
  const body = bytes.subarray(HEAD_SIZE);
  if (new DataView(bytes.buffer, bytes.byteOffset).getUint32(1, true) !== platform.crc32(body))
    throw new ProtocolError('bad_checksum', 'the CRC of the snapshot does not match its content');
  return decodeMap(body, MAX_DEPTH, 'the snapshot', MAX_SNAPSHOT_ENTRIES);
}

function assertSize(size: number, max: number): void {
  if (size <= max) return;
  throw new ProtocolError('message_too_large', `a snapshot of ${size} bytes; at most ${max} are possible`);
}

/** The fields of the session itself in a snapshot, read and checked. */
export interface RestoredSession {
  readonly id: string;
  readonly idleMs: number;
  /** How long the session is kept without a connection; `undefined` if it has one. */
  readonly leftMs: number | undefined;
  readonly roundTripMs: number | undefined;
  readonly unknownMessages: number;
  readonly role: ServerRoleState;
  readonly last: LastStreams;
  /** For the channel. */
  readonly fields: Fields;
}

/**
 * @throws {ProtocolError} `unknown_version` for another format, `truncated`, `bad_checksum`, `message_too_large`,
 * `bad_message`, `json_too_deep`, `bad_utf8`; `unsupported` if a server with these options cannot keep the agreement.
 */
export function readSnapshot(bytes: Uint8Array, options: SessionOptions): RestoredSession {
  const fields = decodeSnapshot(bytes);
  const names = ['id', 'idle', 'round_trip', 'unknown'];
  const list = new ValueList(
    names.map((name) => get(fields, name)),
    'the session',
  );
  const id = list.text(MAX_ID);
  if (id === '') throw list.bad('named');
  return {
    id,
    idleMs: list.count(),
    leftMs: amountOf(get(fields, 'left'), 'the window'),
    roundTripMs: list.optional((one) => one.number()),
    unknownMessages: list.optional((one) => one.count()) ?? 0,
    role: roleOf(fields, options),
    last: lastStreamsOf(objectField(fields, 'link')),
    fields,
  };
}

/** `undefined` if absent; `null` stands for `Infinity`. */
function amountOf(value: unknown, what: string): number | undefined {
  return value === undefined ? undefined : new ValueList([value], what).amount();
}

export const MAX_ID = 128;
const MAX_TOKEN = 256;

// --- the server's role

type Agreed = Pick<ServerRoleState, 'answer' | 'statedAgentId' | 'agentId'>;

/** The constants of a session, but for its ID. */
export function agreedFields({ answer, statedAgentId, agentId }: Agreed): Fields {
  return { agreement: agreementValues(answer), stated_agent: statedAgentId, agent: agentId };
}

/** @throws {ProtocolError} `bad_message`; `unsupported` if a server with these options cannot keep the agreement. */
export function agreedOf(fields: Fields, options: SessionOptions): Agreed {
  const list = new ValueList([get(fields, 'stated_agent'), get(fields, 'agent')], 'the role');
  const { agreements = new AgreementCache() } = options;
  const agreement = get(fields, 'agreement');
  return {
    // Sessions with the same agreement share it, as sessions do that begin here.
    answer: agreements.share(`moved ${JSON.stringify(agreement)}`, () => readAgreement(agreement, options)),
    statedAgentId: list.optional((one) => one.text(MAX_ID)),
    agentId: list.optional((one) => one.text(MAX_ID)),
  };
}

export function serverFields(role: ServerRoleState): Fields {
  const { guard, isDetached, awaitedCodecs, rates, expiresIn } = role;
  const { messages, bytes, controls, opensIn } = rates;
  return {
    ...agreedFields(role),
    resume: guard && [guard.token, orNull(guard.previous), guard.lastAttempt, guard.isRebuilt],
    detached: isDetached || undefined,
    codecs: awaitedCodecs.size > 0 ? [...awaitedCodecs] : undefined,
    rates: trimmed([...[messages, bytes, controls].map(orNull), msUntil(opensIn, 0)]),
    expires: expiresIn === undefined ? undefined : msUntil(expiresIn, 0),
  };
}

function roleOf(fields: Fields, options: SessionOptions): ServerRoleState {
  const list = new ValueList([get(fields, 'detached')], 'the role');
  const agreed = agreedOf(fields, options);
  const guard = get(fields, 'resume');
  if ((guard !== undefined) !== (agreed.answer.negotiated?.extensions[Extension.RESUME] !== undefined))
    throw list.bad('with a token if resume was agreed');
  return {
    ...agreed,
    isDetached: list.optional((one) => one.flag()) ?? false,
    guard: guard === undefined ? undefined : guardOf(new ValueList(guard, 'the tokens')),
    awaitedCodecs: new Set(laterCodecsField(fields)),
    rates: ratesOf(new ValueList(get(fields, 'rates'), 'the rates')),
    expiresIn: amountOf(get(fields, 'expires'), 'the credentials'),
  };
}

function guardOf(list: ValueList): ResumeState {
  return {
    token: tokenOf(list),
    previous: list.optional(tokenOf),
    lastAttempt: list.count(),
    isRebuilt: list.flag(),
  };
}

function tokenOf(list: ValueList): string {
  const token = list.text(MAX_TOKEN);
  if (token === '') throw list.bad('not empty');
  return token;
}

function ratesOf(list: ValueList): RateState {
  return {
    messages: list.optional((one) => one.number()),
    bytes: list.optional((one) => one.number()),
    controls: list.optional((one) => one.number()),
    opensIn: list.optional((one) => one.amount()) ?? Infinity,
  };
}

// --- restoring

/** The options of a session that keeps its agreement, even if this server states something else to new clients. */
export function optionsFor({ negotiated }: Answer, options: SessionOptions): SessionOptions {
  const { capabilities } = options;
  const stated = negotiated?.extensions ?? NO_EXTENSIONS;
  const isSame = Object.entries(stated).every(([name, value]) => capabilities.extensions[name] === value);
  if (isSame) return options;
  return {
    ...options,
    capabilities: { ...capabilities, extensions: { ...capabilities.extensions, ...stated } },
  };
}
const NO_EXTENSIONS: StringMap = {};
