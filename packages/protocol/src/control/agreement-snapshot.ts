import type { EncodingName } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { type Fields, objectField } from '../base/fields.js';
import { ANNOUNCED_LIMITS, type Limits } from '../base/limits.js';
import { orNull, trimmed, ValueList } from '../base/value-list.js';
import type { AvpAgreement } from '../codec/avp/agreement.js';
import { type AgreementOptions, type Answer, type Negotiated, offerKey, offerOf } from './agreement.js';
import { parseAccept, parseHello } from './capabilities.js';
import type { CapabilityShape, Offer } from './messages.js';
import { statedVocabularies } from './negotiate.js';

/**
 * An offer and the agreement on it as plain values. A session that moves keeps its agreement, which another release or
 * other options would have made in another way; a server that cannot keep it refuses the session.
 */

export function agreementValues({ offer, negotiated }: Answer): readonly unknown[] {
  return [offerValues(offer), negotiatedValues(negotiated as Negotiated, offer)];
}

function offerValues(offer: Offer): readonly unknown[] {
  const { shape, version, algorithms, encodings, preferredEncoding } = offer;
  const { securityScanning, maxPayloadSize, supportsStreaming, extensions } = offer;
  return [
    ...[shape, version, algorithms, encodings, preferredEncoding],
    ...[securityScanning, maxPayloadSize, supportsStreaming, { ...extensions }],
  ];
}

function negotiatedValues(negotiated: Negotiated, offer: Offer): readonly unknown[] {
  const { version, algorithms, encoding, securityScanning, maxPayloadSize } = negotiated;
  const { limits, avp } = negotiated;
  // Ends with the default options state the same.
  const extensions = Object.entries(negotiated.extensions).map(([name, value]) => [
    name,
    value === offer.extensions[name] || value,
  ]);
  return trimmed([
    ...[version, algorithms, encoding, securityScanning, maxPayloadSize],
    ...[ANNOUNCED_LIMITS.map((name) => limits[name] ?? null), Object.fromEntries(extensions)],
    orNull(avp && [avp.mode, avp.mapId]),
  ]);
}

/**
 * Reads what {@link agreementValues} returns.
 *
 * @throws {ProtocolError} `bad_message`; `unsupported` if a server with these options cannot keep the agreement.
 */
export function readAgreement(value: unknown, options: AgreementOptions): Answer {
  const list = new ValueList(value, 'the agreement');
  const offer = readOffer(new ValueList(list.value(), 'the offer'));
  const negotiated = readNegotiated(new ValueList(list.value(), 'the agreement'), offer);
  assertKept(offer, negotiated, options);
  const agreement = { ...negotiated, extensions: Object.keys(negotiated.extensions) };
  return { offer, key: offerKey(offer), outcome: { accepted: true, agreement }, negotiated };
}

/** The values of a HELLO, which has checked them by other names. */
function readOffer(list: ValueList): Offer {
  const shape = list.text(16);
  if (!isShape(shape)) throw list.bad('in a known shape');
  const fields = namesOf(list, 'version', 'algorithms', 'encodings', 'preferred_encoding');
  const rest = namesOf(list, 'security_scanning', 'max_payload_size', 'supports_streaming', 'extensions');
  return { ...offerOf(parseHello({ ...fields, ...rest })), shape };
}

function readNegotiated(list: ValueList, offer: Offer): Negotiated {
  const names = [
    'version',
    'algorithms',
    'encoding',
    'security_scanning',
    'max_payload_size',
    'limits',
    'extensions',
  ];
  const fields = namesOf(list, ...names);
  const extended = extensionsOf(fields['extensions'], offer);
  // All of it is stated here, so what is absent has no standard value.
  const stated = {
    encoding: fields['encoding'] ?? '',
    limits: limitsOf(fields['limits']),
    extensions: extended,
  };
  const accept = parseAccept({ ...fields, ...stated });
  const { version, algorithms, encoding, securityScanning, maxPayloadSize, limits, extensions } = accept;
  // A name that is not known here is left out of what was parsed.
  const isKnown =
    Array.isArray(fields['algorithms']) &&
    fields['algorithms'].length === algorithms?.length &&
    orNull(fields['encoding']) === encoding;
  if (!isKnown) throw unsupported('codecs that it does not know');
  const avp = list.optional((one) => avpOf(new ValueList(one.value(), 'the models')));
  return Object.freeze({
    ...{
      version,
      algorithms,
      encoding,
      securityScanning,
      maxPayloadSize,
      limits,
      extensions,
      avp,
      isNested: offer.shape === 'nested' || undefined,
      reasons: REASONS,
    },
  });
}

function namesOf(list: ValueList, ...names: readonly string[]): Fields {
  return Object.fromEntries(names.map((name) => [name, list.value() ?? null]));
}

/** By name, as an ACCEPT states them; `null` is unlimited. */
function limitsOf(value: unknown): Fields {
  return namesOf(new ValueList(value, 'the limits'), ...ANNOUNCED_LIMITS);
}

/** `true` stands for what the offer states. */
function extensionsOf(value: unknown, { extensions }: Offer): Fields {
  const entries = Object.entries(objectField({ extensions: value }, 'extensions'));
  return Object.fromEntries(
    entries.map(([name, stated]) => [name, stated === true ? extensions[name] : stated]),
  );
}

const isShape = (shape: string): shape is CapabilityShape => shape === 'flat' || shape === 'nested';

function avpOf(list: ValueList): AvpAgreement {
  const mode = list.text(16);
  if (mode !== 'latent' && mode !== 'json') throw list.bad('agreed on in a known mode');
  return Object.freeze({ mode, mapId: list.text(MAX_MAP_ID) });
}

/** The sentences for people stay where the agreement was made. */
const REASONS: readonly string[] = ['the session has moved here with this agreement'];
const MAX_MAP_ID = 1024;

// --- what this server can keep

/** @throws {ProtocolError} `unsupported`. */
function assertKept(offer: Offer, negotiated: Negotiated, { capabilities, limits }: AgreementOptions): void {
  const hasAll = (needed: readonly string[], own: readonly string[]) =>
    needed.every((name) => own.includes(name));
  if (!hasAll(negotiated.algorithms, capabilities.algorithms))
    throw unsupported('algorithms that it does not have');
  if (!hasAll(Object.keys(negotiated.extensions), Object.keys(capabilities.extensions)))
    throw unsupported('extensions that it does not have');
  if (!isSameVocabulary(negotiated.encoding, offer, capabilities)) throw unsupported('another vocabulary');
  const smaller = ANNOUNCED_LIMITS.find((name) => limits[name] < announced(negotiated, name));
  if (smaller !== undefined) throw unsupported(`a larger ${smaller} than it allows`);
}

const announced = ({ limits }: Negotiated, name: keyof Limits): number => limits[name] ?? Infinity;

function isSameVocabulary(
  encoding: EncodingName | null,
  { extensions }: Offer,
  { encodings, vocabularies }: AgreementOptions['capabilities'],
): boolean {
  if (encoding === null) return true;
  const [own, theirs] = [vocabularies[encoding], statedVocabularies(extensions)[encoding]];
  return encodings.includes(encoding) && (own === undefined || theirs === undefined || own === theirs);
}

function unsupported(what: string): ProtocolError {
  return new ProtocolError(
    'unsupported',
    `the session has agreed on ${what}, so this server cannot continue it`,
  );
}
