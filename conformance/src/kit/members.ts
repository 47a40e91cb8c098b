import { type Fields, textOf } from './bodies.js';
import { Deviation, must } from './deviation.js';

/**
 * The maps of a peer, read as the tables of the specification define them: a member that may be left out has its default,
 * null counts as absent, and another type is a deviation. So no scenario fails, or crashes, at members that a peer may
 * leave out.
 */

type Bytes = Uint8Array | string | undefined;

const reader =
  <T>(what: string, is: (value: unknown) => value is T) =>
  (fields: Fields, name: string, otherwise: T, bytes?: Bytes): T => {
    const value = fields[name] ?? otherwise;
    must(is(value), `${name} is not ${what}`, bytes);
    return value;
  };

export const textIn = reader('a text', (value) => typeof value === 'string');
export const booleanIn = reader('a boolean', (value) => typeof value === 'boolean');
export const countIn = reader(
  'a whole number of at least 0',
  (value): value is number => Number.isInteger(value) && (value as number) >= 0,
);
export const mapIn = reader(
  'a map',
  (value): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value),
);
export const textsIn = reader(
  'a list of texts',
  (value): value is readonly string[] =>
    Array.isArray(value) && value.every((each) => typeof each === 'string'),
);

/** A member that has to be there. */
export function required(fields: Fields, name: string, bytes?: Bytes): unknown {
  const value = fields[name] ?? undefined;
  must(value !== undefined, `${name} is missing`, bytes);
  return value;
}

/** Names as the specification spells them. */
const SPELLED = [
  ...['M2M', 'TOKEN_NATIVE', 'TOKEN', 'BROTLI', 'DICTIONARY', 'NONE'],
  ...['CL100K_BASE', 'O200K_BASE', 'LLAMA_BPE'],
];
const plain = (name: string): string => name.toUpperCase().replaceAll(/[_-]/g, '');

/** A name of an algorithm or encoding, which peers may spell otherwise (`CTL-4`). */
export const spelled = (name: string): string =>
  SPELLED.find((known) => plain(known) === plain(name)) ?? name;

/** A list of such names, each once (`CTL-5`). */
export const namesIn = (fields: Fields, name: string, bytes?: Bytes): readonly string[] => [
  ...new Set(textsIn(fields, name, [], bytes).map(spelled)),
];

/** The payload of HELLO with every default in its place. */
export function helloIn(payload: Fields, bytes?: Bytes): Fields {
  const hello = {
    ...payload,
    version: textIn(payload, 'version', '', bytes),
    algorithms: namesIn(payload, 'algorithms', bytes),
    encodings: namesIn(payload, 'encodings', bytes),
    security_scanning: booleanIn(payload, 'security_scanning', false, bytes),
    max_payload_size: countIn(payload, 'max_payload_size', 0, bytes),
    supports_streaming: booleanIn(payload, 'supports_streaming', false, bytes),
    extensions: extensionsIn(payload, bytes),
  };
  const resume = payload['resume'] ?? undefined;
  return resume === undefined ? hello : { ...hello, resume: askedIn(payload, bytes) };
}

/** `resume` of HELLO. */
function askedIn(payload: Fields, bytes: Bytes): Fields {
  const resume = mapIn(payload, 'resume', {}, bytes);
  for (const name of ['session_id', 'token'])
    must(typeof required(resume, name, bytes) === 'string', `resume.${name} is not a text`, bytes);
  return {
    ...resume,
    received: countIn(resume, 'received', 0, bytes),
    attempt: countIn(resume, 'attempt', 0, bytes),
  };
}

/** The payload of ACCEPT with every default in its place. `resume` is for {@link ticketIn} to read. */
export function acceptIn(payload: Fields, bytes?: Bytes): Fields {
  const extensions = extensionsIn(payload, bytes);
  // With `std` the absent ones are those of HELLO.
  if (!('std' in extensions)) required(payload, 'algorithms', bytes);
  const encoding = spelled(textIn(payload, 'encoding', '', bytes));
  return {
    ...payload,
    version: textIn(payload, 'version', '', bytes),
    algorithms: namesIn(payload, 'algorithms', bytes),
    encoding: encoding === '' ? null : encoding,
    security_scanning: booleanIn(payload, 'security_scanning', false, bytes),
    session_timeout_ms: countIn(payload, 'session_timeout_ms', 0, bytes),
    max_payload_size: countIn(payload, 'max_payload_size', 0, bytes),
    limits: mapIn(payload, 'limits', {}, bytes),
    extensions,
  };
}

function extensionsIn(payload: Fields, bytes: Bytes): Readonly<Record<string, string>> {
  const extensions = mapIn(payload, 'extensions', {}, bytes);
  for (const [name, value] of Object.entries(extensions))
    must(typeof value === 'string' && value.length <= 16_384, `extensions.${name} is not a text`, bytes);
  return extensions as Record<string, string>;
}

/** `resume` of ACCEPT. */
export interface Ticket {
  readonly token: string;
  readonly windowMs: number;
  readonly recovered: boolean;
  readonly received: number;
  readonly reason: string | undefined;
  readonly rebuilt: Fields | undefined;
}

/** @throws {Deviation} if `resume` of ACCEPT is not as section 6 says. */
export function ticketIn(accept: Fields, bytes?: Bytes): Ticket {
  must(
    (accept['resume'] ?? undefined) !== undefined,
    'ACCEPT has no resume although it was agreed on',
    bytes,
  );
  const resume = mapIn(accept, 'resume', {}, bytes);
  const token = required(resume, 'token', bytes);
  must(
    typeof token === 'string' && token.length > 0 && token.length <= 256,
    'resume.token is not a text',
    bytes,
  );
  const reason = textIn(resume, 'reason', '', bytes);
  return {
    token,
    windowMs: countIn(resume, 'window_ms', 0, bytes),
    recovered: booleanIn(resume, 'recovered', false, bytes),
    received: countIn(resume, 'received', 0, bytes),
    reason: reason === '' ? undefined : reason,
    rebuilt: (resume['rebuilt'] ?? undefined) === undefined ? undefined : mapIn(resume, 'rebuilt', {}, bytes),
  };
}

/** Reads JSON of a peer. @throws {Deviation} if it is none. */
export function jsonIn<T = unknown>(body: { readonly content: Uint8Array } | string): T {
  const text = typeof body === 'string' ? body : textOf(body);
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw new Deviation(`what the peer tells is not JSON (${(error as Error).message})`, text);
  }
}
