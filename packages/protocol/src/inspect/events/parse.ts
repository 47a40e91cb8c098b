import { ProtocolError } from '../../base/errors.js';
import { bad, type Fields, get, isCount, isFields } from '../../base/fields.js';
import {
  type ConnectionEvent,
  type FrameEvent,
  type InspectionEvent,
  type RecordedField,
  type RecordedSelection,
  type ReplayEvent,
  SCHEMA_VERSION,
  type StateEvent,
} from './event.js';

/** Reads captures, which may come from strangers: members that the schema does not have are left out. */

/** Longest line of a capture, in UTF-16 units. */
export const MAX_LINE = 2 * 1024 * 1024;
/** Most fields of a frame, nested ones included. */
const MAX_FIELDS = 4096;
const MAX_DEPTH = 256;
/** Longest text of any member, in UTF-16 units. */
const MAX_TEXT = 64 * 1024;
const MAX_HEX = 128 * 1024;
const MAX_ITEMS = 64;

/**
 * Reads one line of a capture.
 *
 * @returns `undefined` for an event that the schema does not have: `parlance connect --json` prints others as well.
 * @throws {ProtocolError} `bad_json`; `bad_message` if the line is not an event; `unsupported` if it has another version.
 */
export function parseEvent(line: string): InspectionEvent | undefined {
  if (line.length > MAX_LINE) throw bad('the line', `at most ${MAX_LINE} characters`);
  const value = jsonOf(line);
  if (!isFields(value)) throw bad('the line', 'an object');
  const event = get(value, 'event');
  if (typeof event !== 'string') throw bad('event', 'a string');
  const version = get(value, 'v');
  if (version !== SCHEMA_VERSION) {
    throw new ProtocolError('unsupported', `version ${String(version)} of the schema is not known`);
  }
  const head = { v: SCHEMA_VERSION, time: timeOf(value) } as const;
  switch (event) {
    case 'frame':
      return { ...head, event, ...frameOf(value) };
    case 'connection':
      return { ...head, event, ...connectionOf(value) };
    case 'state':
      return { ...head, event, ...stateOf(value) };
    case 'replay':
      return { ...head, event, ...replayOf(value) };
    default:
      return undefined;
  }
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new ProtocolError('bad_json', 'the line is not JSON');
  }
}

function timeOf(fields: Fields): string {
  const time = text(fields, 'time');
  if (Number.isNaN(Date.parse(time))) throw bad('time', 'a date in ISO 8601');
  return new Date(time).toISOString();
}

type Body<Event> = Omit<Event, 'v' | 'time' | 'event'>;

const KINDS = ['control', 'link', 'token-native', 'm2m', 'avp', 'text-form', 'content', 'unknown'] as const;
const PROTECTIONS = ['HMAC', 'AEAD'] as const;

function frameOf(fields: Fields): Body<FrameEvent> {
  const sizes = objectOf(fields, 'sizes');
  const hex = optional(fields, 'hex', (name, value) => textOf(name, value, MAX_HEX));
  if (hex !== undefined && !/^(?:[0-9a-f]{2}|xx)*$/.test(hex))
    throw bad('hex', 'pairs of hexadecimal digits');
  return {
    connection: count(fields, 'connection'),
    direction: choice(fields, 'direction', ['sent', 'received']),
    kind: choice(fields, 'kind', KINDS),
    form: choice(fields, 'form', ['binary', 'text']),
    label: text(fields, 'label'),
    summary: text(fields, 'summary'),
    streamId: optional(fields, 'streamId', countOf),
    codec: optional(fields, 'codec', textOf),
    tokens: optional(fields, 'tokens', countOf),
    sizes: {
      frame: count(sizes, 'frame'),
      body: optional(sizes, 'body', countOf),
      content: optional(sizes, 'content', countOf),
    },
    preview: optional(fields, 'preview', textOf),
    fields: fieldsOf(get(fields, 'fields'), { left: MAX_FIELDS }, 0),
    isCut: flag(fields, 'isCut'),
    isReplayed: flag(fields, 'isReplayed'),
    protection: optional(fields, 'protection', () => choice(fields, 'protection', PROTECTIONS)),
    hex,
    selection: optional(fields, 'selection', selectionOf),
    error: optional(fields, 'error', faultOf),
    warnings: items(fields, 'warnings', faultOf),
    missing: items(fields, 'missing', textOf) as FrameEvent['missing'],
  };
}

function connectionOf(fields: Fields): Body<ConnectionEvent> {
  return {
    connection: count(fields, 'connection'),
    what: choice(fields, 'what', ['opening', 'open', 'closed', 'failed']),
    url: optional(fields, 'url', textOf),
    code: optional(fields, 'code', countOf),
    reason: optional(fields, 'reason', textOf),
  };
}

function stateOf(fields: Fields): Body<StateEvent> {
  return {
    state: choice(fields, 'state', ['established', 'suspended', 'closed']),
    session: optional(fields, 'session', textOf),
    isResumed: flag(fields, 'isResumed'),
    windowMs: optional(fields, 'windowMs', numberOf),
  };
}

function replayOf(fields: Fields): Body<ReplayEvent> {
  return {
    session: text(fields, 'session'),
    gapMs: optional(fields, 'gapMs', numberOf),
    received: count(fields, 'received'),
    acknowledged: count(fields, 'acknowledged'),
    again: count(fields, 'again'),
    isRebuilt: get(fields, 'isRebuilt') === true,
  };
}

function fieldsOf(value: unknown, budget: { left: number }, depth: number): RecordedField[] {
  if (!Array.isArray(value)) throw bad('fields', 'a list');
  budget.left -= value.length;
  if (budget.left < 0 || depth > MAX_DEPTH) throw bad('fields', `at most ${MAX_FIELDS} fields`);
  return value.map((field: unknown) => {
    if (!isFields(field)) throw bad('fields', 'a list of objects');
    const children = get(field, 'children');
    return {
      name: text(field, 'name'),
      value: optional(field, 'value', fieldValueOf),
      offset: count(field, 'offset'),
      length: count(field, 'length'),
      note: optional(field, 'note', textOf),
      isSecret: flag(field, 'isSecret'),
      standsForBytes: optional(field, 'standsForBytes', countOf),
      ...(children !== undefined && { children: fieldsOf(children, budget, depth + 1) }),
    };
  });
}

function fieldValueOf(name: string, value: unknown): string | number | boolean | null {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return value;
  return textOf(name, value);
}

function selectionOf(name: string, value: unknown): RecordedSelection {
  if (!isFields(value)) throw bad(name, 'an object');
  const reason = objectOf(value, 'reason');
  return {
    algorithm: text(value, 'algorithm'),
    reason: {
      rule: text(reason, 'rule'),
      tried: items(reason, 'tried', (_, trial) => {
        if (!isFields(trial)) throw bad('tried', 'a list of objects');
        return {
          algorithm: text(trial, 'algorithm'),
          bytes: optional(trial, 'bytes', numberOf),
          estimated: get(trial, 'estimated') === true,
        };
      }),
    },
  };
}

function faultOf(name: string, value: unknown): NonNullable<FrameEvent['error']> {
  if (!isFields(value)) throw bad(name, 'an object');
  const fault = {
    code: text(value, 'code'),
    message: text(value, 'message'),
    offset: count(value, 'offset'),
  };
  return fault as NonNullable<FrameEvent['error']>;
}

// --- members

function optional<T>(fields: Fields, name: string, read: (name: string, value: unknown) => T): T | undefined {
  const value = get(fields, name);
  return value === undefined ? undefined : read(name, value);
}

function items<T>(fields: Fields, name: string, read: (name: string, value: unknown) => T): T[] {
  const value = get(fields, name);
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > MAX_ITEMS) throw bad(name, `a list of at most ${MAX_ITEMS}`);
  return value.map((item) => read(name, item));
}

function objectOf(fields: Fields, name: string): Fields {
  const value = get(fields, name);
  if (!isFields(value)) throw bad(name, 'an object');
  return value;
}

function textOf(name: string, value: unknown, max = MAX_TEXT): string {
  if (typeof value !== 'string' || value.length > max) throw bad(name, `a string of at most ${max}`);
  return value;
}

function text(fields: Fields, name: string): string {
  return textOf(name, get(fields, name));
}

function countOf(name: string, value: unknown): number {
  if (!isCount(value)) throw bad(name, 'a non-negative whole number');
  return value;
}

function count(fields: Fields, name: string): number {
  return countOf(name, get(fields, name));
}

function numberOf(name: string, value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw bad(name, 'a number');
  return value;
}

function flag(fields: Fields, name: string): true | undefined {
  return get(fields, name) === true ? true : undefined;
}

function choice<Name extends string>(fields: Fields, name: string, names: readonly Name[]): Name {
  const value = get(fields, name);
  const found = names.find((each) => each === value);
  if (found === undefined) throw bad(name, `one of ${names.join(', ')}`);
  return found;
}
