import {
  Algorithm,
  EncodingName,
  Extension,
  MAX_STREAM_ID,
  NESTED_PROTOCOL_VERSION,
} from '../base/constants.js';
import { toProtocolError } from '../base/errors.js';
import {
  bad,
  booleanField,
  countField,
  type Fields,
  get,
  isCount,
  isFields,
  namesField,
  objectField,
  type StringMap,
  stringField,
  stringMapField,
} from '../base/fields.js';
import {
  type AcceptPayload,
  type CapabilityShape,
  type HelloPayload,
  type LaterCodec,
  MAX_CANCELLED,
  NONCE_BYTES,
  type RebuiltLink,
  type ResumeAnswer,
  type ResumeOffer,
} from './messages.js';
import { areStandard, expandExtensions, STANDARD_VALUES, shortenExtensions } from './standard.js';

/**
 * The payloads of HELLO and ACCEPT in both capability shapes: our flat one, and the nested one of the reference
 * implementation, which spells names its own way. The shape decides which one a payload is, not the version.
 */

const MAX_NAMES = 64;
const MAX_EXTENSIONS = 64;
const MAX_TEXT = 16 * 1024;
const AGENT_ID = /^[A-Za-z0-9._:@-]{1,128}$/;

/** Names in the nested shape, and in DATA after it. */
export const REFERENCE_ALGORITHMS = {
  M2M: 'm2m',
  TOKEN_NATIVE: 'tokennative',
  TOKEN: 'token',
  BROTLI: 'brotli',
  DICTIONARY: 'dictionary',
  NONE: 'none',
} as const satisfies Record<Algorithm, string>;

const REFERENCE_ENCODINGS = {
  CL100K_BASE: 'Cl100kBase',
  O200K_BASE: 'O200kBase',
  LLAMA_BPE: 'LlamaBpe',
} as const satisfies Record<EncodingName, string>;

/** Compares names without case and separators, which covers both spellings. */
function nameParser<Name extends string>(names: Readonly<Record<string, Name>>) {
  const fold = (name: string) => name.toLowerCase().replaceAll('_', '').replaceAll('-', '');
  const known = new Map(Object.values(names).map((name) => [fold(name), name]));
  return (name: string): Name | undefined => (name.length > 64 ? undefined : known.get(fold(name)));
}

/** Reads names of algorithms and encodings in any accepted spelling. */
export const capabilityNames = {
  algorithm: nameParser(Algorithm),
  encoding: nameParser(EncodingName),
};

/** The codecs of READY; unknown names are ignored. */
export function laterCodecsField(payload: Fields): LaterCodec[] {
  return namesField(payload, 'codecs', MAX_NAMES, laterCodec);
}

/**
 * The codecs that the extension `ready` of a HELLO lists; unknown names are ignored.
 *
 * @throws {ProtocolError} `bad_message` if it is not a JSON list of at most 64 names.
 */
export function laterCodecs(stated: string): LaterCodec[] {
  let codecs: unknown;
  try {
    codecs = JSON.parse(stated);
  } catch (cause) {
    throw toProtocolError(cause, 'bad_message', 'the extension ready must be a JSON list');
  }
  if (!Array.isArray(codecs)) throw bad('the extension ready', 'a JSON list of names');
  return laterCodecsField({ codecs });
}

const laterCodec = (name: string): LaterCodec | undefined =>
  name === 'CONTEXT' ? name : capabilityNames.algorithm(name);

export function parseHello(payload: Fields): HelloPayload {
  const shape = shapeOf(payload);
  const lists = shape === 'nested' ? objectField(payload, 'compression') : payload;
  const extensions = extensionsField(payload);
  const absent = absentValues(shape, extensions);
  return {
    shape,
    version: stringField(payload, 'version', '', 32),
    algorithms: namesField(lists, 'algorithms', MAX_NAMES, capabilityNames.algorithm),
    encodings: namesField(lists, 'encodings', MAX_NAMES, capabilityNames.encoding),
    preferredEncoding: encodingField(lists, 'preferred_encoding'),
    securityScanning: scanningField(payload, shape),
    maxPayloadSize: maxPayloadField(lists, shape, absent.maxPayloadSize),
    supportsStreaming: booleanField(lists, shape === 'nested' ? 'streaming' : 'supports_streaming', false),
    agentId: agentIdField(payload),
    extensions,
    auth: authField(payload),
    resume: resumeOfferField(payload),
    nonce: nonceField(payload),
  };
}

/** Of the flat shape. */
export function flatHelloFields(hello: HelloPayload): Fields {
  const absent = absentValues('flat', hello.extensions);
  return {
    version: hello.version,
    algorithms: hello.algorithms,
    encodings: hello.encodings,
    preferred_encoding: hello.preferredEncoding ?? undefined,
    security_scanning: hello.securityScanning || undefined,
    max_payload_size: unless(absent.maxPayloadSize, hello.maxPayloadSize),
    supports_streaming: hello.supportsStreaming || undefined,
    agent_id: hello.agentId,
    extensions: shortenExtensions(hello.extensions),
    auth: hello.auth,
    resume: hello.resume && {
      session_id: hello.resume.sessionId,
      token: hello.resume.token,
      received: hello.resume.received,
      attempt: hello.resume.attempt,
      rebuild: hello.resume.rebuild || undefined,
      have: hello.resume.have,
    },
    nonce: hello.nonce,
  };
}

/** Of either shape. */
export function helloFields(hello: HelloPayload): Fields {
  if (hello.shape === 'flat') return flatHelloFields(hello);
  return { ...nestedFields(hello, hello.preferredEncoding), auth: hello.auth, nonce: hello.nonce };
}

export function parseAccept(payload: Fields): AcceptPayload {
  const shape = shapeOf(payload);
  const lists = shape === 'nested' ? objectField(payload, 'compression') : payload;
  const extensions = extensionsField(payload);
  const absent = absentValues(shape, extensions);
  const limits: Record<string, number> = {};
  const given = get(payload, 'limits') == null ? absent.limits : objectField(payload, 'limits');
  for (const name of Object.keys(given).slice(0, MAX_NAMES)) {
    if (given[name] !== null) limits[name] = countField(given, name, 0);
  }
  return {
    shape,
    version: stringField(payload, 'version', absent.version, 32),
    algorithms:
      absent === STANDARD_VALUES && get(payload, 'algorithms') == null
        ? undefined
        : namesField(lists, 'algorithms', MAX_NAMES, capabilityNames.algorithm),
    encoding: encodingField(lists, shape === 'nested' ? 'preferred_encoding' : 'encoding', absent.encoding),
    encodings: namesField(lists, 'encodings', MAX_NAMES, capabilityNames.encoding),
    securityScanning: scanningField(payload, shape),
    sessionTimeoutMs: countField(payload, 'session_timeout_ms', absent.sessionTimeoutMs),
    maxPayloadSize: maxPayloadField(lists, shape, absent.maxPayloadSize),
    limits: Object.freeze(limits),
    agentId: agentIdField(payload),
    extensions,
    resume: resumeAnswerField(payload, absent.windowMs),
  };
}

export function acceptFields(accept: AcceptPayload): Fields {
  if (accept.shape === 'nested')
    return nestedFields(
      { ...accept, algorithms: accept.algorithms ?? [], supportsStreaming: true },
      accept.encoding,
    );
  const absent = absentValues('flat', accept.extensions);
  return {
    version: unless(absent.version, accept.version),
    algorithms: accept.algorithms,
    encoding: unless(absent.encoding, accept.encoding ?? ''),
    security_scanning: accept.securityScanning || undefined,
    session_timeout_ms: unless(absent.sessionTimeoutMs, accept.sessionTimeoutMs),
    max_payload_size: unless(absent.maxPayloadSize, accept.maxPayloadSize),
    limits: absent === STANDARD_VALUES && areStandard(accept.limits) ? undefined : { ...accept.limits },
    agent_id: accept.agentId,
    // A client that does not list `std` need not know of it.
    extensions: absent === STANDARD_VALUES ? shortenExtensions(accept.extensions) : accept.extensions,
    resume: accept.resume && {
      token: accept.resume.token,
      window_ms: unless(absent.windowMs, accept.resume.windowMs),
      recovered: unless(absent.recovered, accept.resume.recovered),
      received: unless(absent.received, accept.resume.received),
      reason: accept.resume.reason,
      rebuilt: accept.resume.rebuilt && { ...accept.resume.rebuilt },
    },
  };
}

/** The meaning of absent fields. */
function absentValues(shape: CapabilityShape, extensions: StringMap): AbsentValues {
  return shape === 'flat' && Object.hasOwn(extensions, Extension.STANDARD) ? STANDARD_VALUES : NOTHING;
}

type AbsentValues = Pick<AcceptPayload, 'version' | 'sessionTimeoutMs' | 'maxPayloadSize' | 'limits'> & {
  readonly encoding: string;
  readonly windowMs: number;
  readonly recovered: boolean | undefined;
  readonly received: number | undefined;
};

const NOTHING: AbsentValues = {
  version: '',
  encoding: '',
  sessionTimeoutMs: 0,
  maxPayloadSize: 0,
  windowMs: 0,
  recovered: undefined,
  received: undefined,
  limits: {},
};

/** A field, or nothing if its absence says the same. */
function unless<Value>(absent: Value | undefined, value: Value): Value | undefined {
  return value === absent ? undefined : value;
}

type NestedSource = Omit<HelloPayload, 'shape' | 'preferredEncoding' | 'auth' | 'resume' | 'nonce'>;

/** The reference's `Capabilities`; the reference requires every field, including those that we do not use. */
function nestedFields(source: NestedSource, preferred: EncodingName | null): Fields {
  return {
    version: source.version || NESTED_PROTOCOL_VERSION,
    agent_id: source.agentId ?? '',
    agent_type: 'parlance',
    compression: {
      algorithms: source.algorithms.map((name) => REFERENCE_ALGORITHMS[name]),
      max_payload: source.maxPayloadSize,
      streaming: source.supportsStreaming,
      ml_routing: false,
      encodings: source.encodings.map((name) => REFERENCE_ENCODINGS[name]),
      // The reference does not allow null: its own default if no encoding was agreed.
      preferred_encoding: REFERENCE_ENCODINGS[preferred ?? EncodingName.CL100K_BASE],
    },
    security: {
      threat_detection: source.securityScanning,
      model_version: null,
      blocking_mode: false,
      block_threshold: 0.8,
    },
    extensions: { ...source.extensions },
  };
}

function shapeOf(payload: Fields): CapabilityShape {
  return isFields(get(payload, 'compression')) ? 'nested' : 'flat';
}

function maxPayloadField(lists: Fields, shape: CapabilityShape, absent: number): number {
  return countField(lists, shape === 'nested' ? 'max_payload' : 'max_payload_size', absent);
}

function scanningField(payload: Fields, shape: CapabilityShape): boolean {
  if (shape === 'nested') return booleanField(objectField(payload, 'security'), 'threat_detection', false);
  return booleanField(payload, 'security_scanning', false);
}

/** An unknown preference counts as none, so that the list decides. */
function encodingField(fields: Fields, name: string, absent = ''): EncodingName | null {
  const value = stringField(fields, name, absent, 64);
  return value === '' ? null : (capabilityNames.encoding(value) ?? null);
}

function agentIdField(payload: Fields): string | undefined {
  const id = stringField(payload, 'agent_id', '', 128);
  if (id === '') return undefined;
  if (!isStatedAgentId(id)) throw bad('agent_id', '1 to 128 letters, digits or one of "._:@-"');
  return id;
}

/** Whether HELLO may state `id`. Others can address the client only by the stricter `isAgentId`. */
export function isStatedAgentId(id: string): boolean {
  return AGENT_ID.test(id);
}

function extensionsField(payload: Fields): StringMap {
  return expandExtensions(stringMapField(payload, 'extensions', MAX_EXTENSIONS, MAX_TEXT));
}

function authField(payload: Fields): { token: string } | undefined {
  const auth = get(payload, 'auth');
  if (auth === undefined || auth === null) return undefined;
  if (!isFields(auth)) throw bad('auth', 'an object');
  return { token: tokenField(auth) };
}

/** Credentials, in HELLO and in AUTH. */
export function tokenField(fields: Fields): string {
  const token = get(fields, 'token');
  if (typeof token === 'string' && token.length > 0 && token.length <= MAX_TEXT) return token;
  throw bad('token', `a string of 1 to ${MAX_TEXT} characters`);
}

function resumeOfferField(payload: Fields): ResumeOffer | undefined {
  const fields = get(payload, 'resume');
  if (fields === undefined || fields === null) return undefined;
  if (!isFields(fields)) throw bad('resume', 'an object');
  const sessionId = stringField(fields, 'session_id', '', 128);
  const token = stringField(fields, 'token', '', 256);
  if (sessionId === '' || token === '') throw bad('resume', 'an object with session_id and token');
  return {
    sessionId,
    token,
    received: countField(fields, 'received', 0),
    attempt: countField(fields, 'attempt', 0),
    rebuild: booleanField(fields, 'rebuild', false) || undefined,
    have: mapField(fields, 'have'),
  };
}

function nonceField(payload: Fields): Uint8Array | undefined {
  const nonce = get(payload, 'nonce');
  if (nonce === undefined || nonce === null) return undefined;
  if (nonce instanceof Uint8Array && nonce.length === NONCE_BYTES) return nonce;
  throw bad('nonce', `${NONCE_BYTES} bytes`);
}

function resumeAnswerField(payload: Fields, windowMs: number): ResumeAnswer | undefined {
  const fields = get(payload, 'resume');
  if (fields === undefined || fields === null) return undefined;
  if (!isFields(fields)) throw bad('resume', 'an object');
  const token = stringField(fields, 'token', '', 256);
  if (token === '') throw bad('resume', 'an object with a token');
  return {
    token,
    windowMs: countField(fields, 'window_ms', windowMs),
    recovered: booleanField(fields, 'recovered', false),
    received: countField(fields, 'received', 0),
    reason: stringField(fields, 'reason', '', 128) || undefined,
    rebuilt: rebuiltField(fields),
  };
}

/** Streams of a client have odd IDs, so it can be checked without the session. */
function rebuiltField(answer: Fields): RebuiltLink | undefined {
  const fields = get(answer, 'rebuilt');
  if (fields === undefined || fields === null) return undefined;
  const map = isFields(fields) ? fields : {};
  const { stream, cancelled } = map;
  const isId = (id: unknown): id is number => isCount(id) && id % 2 === 1 && id <= MAX_STREAM_ID;
  const isValid =
    (stream === 0 || isId(stream)) && Array.isArray(cancelled) && cancelled.length <= MAX_CANCELLED;
  if (!isValid || !cancelled.every((id) => isId(id) && id <= stream))
    throw bad('rebuilt', 'stream IDs of the client');
  return { stream, cancelled, kept: mapField(map, 'kept') };
}

/** A map that is read where it is needed; `undefined` for anything else. */
function mapField(fields: Fields, name: string): Fields | undefined {
  const value = get(fields, name);
  return isFields(value) ? value : undefined;
}
