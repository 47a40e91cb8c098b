import { accepted, fail, outcomeOf, same } from './expect.js';
import type { Family } from './family.js';
import { type Fields, isRecord } from './fields.js';
import { algorithmNamed, capabilityOf, payloadOf } from './m2m-negotiation.js';
import { checkIgnored, checkSession } from './m2m-session.js';
import {
  type ControlMessage,
  decodeControl,
  decodeControlJson,
  encodeControl,
  encodeControlJson,
  loadCodecs,
  loadEncoding,
  type UnknownMessage,
} from './subject.js';

/** JSON envelopes, and whole sessions of the reference replayed against our client and server. */
export const m2mMessages: Family = {
  file: 'm2m-messages.json',
  head: ['_meta'],
  sections: [
    { name: 'messages', check: checkMessage },
    { name: 'parse', check: checkParse },
    { name: 'sessions', check: checkSession },
  ],
  prepare: async () => {
    await loadCodecs(['M2M', 'BROTLI']);
    // Sessions may carry tokens.
    await Promise.all([loadEncoding('CL100K_BASE'), loadEncoding('O200K_BASE')]);
  },
};

/** A message of the reference: read, written again, and read once more. */
function checkMessage(given: Fields): void {
  const json = given.text('json');
  const expected = given.text('roundtrip_json');
  const message = decoded(json);
  same(
    withoutUndefined(decoded(expected)),
    withoutUndefined(message),
    'message that the reference makes of its own',
  );

  const written = accepted(() => encodeControlJson(message), 'the message');
  sameMessage(decoded(written), message, 'message read back');
  sameMessage(
    known(accepted(() => decodeControl(encodeControl(message)), 'MessagePack')),
    message,
    'MessagePack',
  );
  if (message.type === 'HELLO' || message.type === 'ACCEPT') {
    checkCapability(message, payloadOf(json));
    same(payloadOf(written).has('compression'), payloadOf(json).has('compression'), 'capability shape');
  } else sameFields(JSON.parse(written), JSON.parse(expected), 'message');
}

function checkCapability(
  message: Extract<ControlMessage, { type: 'HELLO' | 'ACCEPT' }>,
  payload: Fields,
): void {
  const stated = capabilityOf(payload);
  const ours = message.payload;
  const preferred = message.type === 'HELLO' ? message.payload.preferredEncoding : message.payload.encoding;
  same(ours.shape, stated.shape, 'shape');
  same(ours.version, stated.version, 'version');
  same([...(ours.algorithms ?? [])], stated.algorithms, 'algorithms');
  same([...ours.encodings], stated.encodings, 'encodings');
  same(preferred, stated.preferred, 'preferred encoding');
  same(ours.maxPayloadSize, stated.maxPayloadSize, 'largest payload');
  same(ours.securityScanning, stated.scanning, 'security scanning');
  same(ours.agentId, stated.agentId, 'agent_id');
  same({ ...ours.extensions }, stated.extensions, 'extensions');
}

/**
 * Compares every field of the reference's message by value; `null` counts as absent, and names of algorithms
 * may be spelled differently. Our additional fields are defaults, as the message read back has shown.
 */
function sameFields(ours: unknown, theirs: unknown, path: string): void {
  if (theirs === null) return;
  if (!isRecord(theirs)) return same(ours, theirs, path);
  if (!isRecord(ours)) return fail(`${path} is not an object`);
  for (const [name, value] of Object.entries(theirs)) {
    const own = ours[name];
    if (name === 'algorithm' && typeof own === 'string' && typeof value === 'string') {
      same(algorithmNamed(own), algorithmNamed(value), `${path}.${name}`);
    } else sameFields(own, value, `${path}.${name}`);
  }
}

/** An envelope that the reference accepts or refuses. */
function checkParse(given: Fields): void {
  const input = given.text('input');
  const result = given.object('result');
  const outcome = outcomeOf(() => decodeControlJson(input));
  if (!result.flag('ok')) {
    if (!outcome.accepted) return;
    // A type that is unknown to both may come from a later version.
    same(outcome.value.type, 'UNKNOWN', 'type of an envelope that the reference refuses');
    return checkIgnored(input);
  }
  const envelope = JSON.parse(input) as Readonly<Record<string, unknown>>;
  const understood = isUnderstood(envelope, result);
  if (!outcome.accepted) {
    if (mayRefuse(envelope, understood)) return;
    return fail(`the envelope was refused: ${outcome.code}, ${outcome.message}`);
  }
  const message = known(outcome.value);
  same(message.type, envelope['type'], 'type');
  same(message.timestamp, envelope['timestamp'], 'timestamp');
  if (message.type !== 'HELLO') same(message.sessionId, envelope['session_id'] || null, 'session_id');
  if (understood && result.has('reserialized')) {
    sameMessage(decoded(result.text('reserialized')), message, 'message that the reference makes of it');
  }
}

const WITH_PAYLOAD: readonly unknown[] = ['HELLO', 'ACCEPT', 'REJECT', 'DATA'];

/** Whether the reference has the required payload: one that it cannot read counts as missing. */
function isUnderstood(envelope: Readonly<Record<string, unknown>>, result: Fields): boolean {
  const kept = result.maybe('text', 'payload_kind') ?? '';
  if (kept !== 'empty' && kept !== 'absent') return true;
  const payload = envelope['payload'] ?? {};
  return !WITH_PAYLOAD.includes(envelope['type']) && isRecord(payload) && Object.keys(payload).length === 0;
}

/**
 * Whether the protocol page demands more than the reference: required fields with known values, a session ID
 * in ACCEPT, and a time within JavaScript's range.
 */
function mayRefuse(envelope: Readonly<Record<string, unknown>>, understood: boolean): boolean {
  const hasSession = typeof envelope['session_id'] === 'string' && envelope['session_id'] !== '';
  return (
    !understood ||
    (envelope['type'] === 'ACCEPT' && !hasSession) ||
    !Number.isSafeInteger(envelope['timestamp'])
  );
}

function decoded(json: string): ControlMessage {
  return known(accepted(() => decodeControlJson(json), 'the envelope'));
}

function known(message: ControlMessage | UnknownMessage): ControlMessage {
  return message.type === 'UNKNOWN' ? fail(`the type ${message.name} is unknown`) : message;
}

function sameMessage(actual: ControlMessage, expected: ControlMessage, what: string): void {
  same(comparable(actual), comparable(expected), what);
}

/** The nested shape cannot express "no preference"; it then contains the reference's default. */
function comparable(message: ControlMessage): unknown {
  const plain = withoutUndefined(message) as { payload: Record<string, unknown> };
  if (plain.payload['shape'] !== 'nested') return plain;
  for (const name of ['preferredEncoding', 'encoding']) {
    if (plain.payload[name] === null) plain.payload[name] = 'CL100K_BASE';
  }
  return plain;
}

/** Plain data: absent and undefined are equal, and prototypes do not matter. */
function withoutUndefined(message: unknown): unknown {
  return JSON.parse(JSON.stringify(message));
}
