import {
  type Algorithm,
  type EncodingName,
  Extension,
  NESTED_PROTOCOL_VERSION,
  PROTOCOL_VERSION,
  Subprotocol,
} from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { ANNOUNCED_LIMITS, type Limits } from '../base/limits.js';
import { type AvpAgreement, type AvpOptions, agreeOnAvp } from '../codec/avp/agreement.js';
import type { LinkParameters } from '../link/link.js';
import type { Negotiated, SessionOptions } from '../session/types.js';
import type { AcceptPayload, HelloPayload, Offer, ResumeAnswer, ResumeOffer, StringMap } from './messages.js';
import { type Agreement, commonVersion, smallerStated, statedVocabularies } from './negotiate.js';

/** The payloads of HELLO and ACCEPT, and what an agreement means to each end. */

/** The HELLO of a client. */
export function helloOf(
  { shape = 'flat', capabilities, agentId }: SessionOptions,
  token: string | undefined,
  resume?: ResumeOffer,
): HelloPayload {
  return {
    shape,
    version: shape === 'flat' ? PROTOCOL_VERSION : NESTED_PROTOCOL_VERSION,
    algorithms: capabilities.algorithms,
    encodings: capabilities.encodings,
    preferredEncoding: capabilities.encodings[0] ?? null,
    securityScanning: capabilities.securityScanning,
    maxPayloadSize: capabilities.maxPayloadSize,
    supportsStreaming: true,
    agentId,
    extensions: capabilities.extensions,
    auth: token === undefined ? undefined : { token },
    resume,
  };
}

/** What a server pins of the agreement on `offer`, with the limits that it announces. */
export function serverAgreement(agreement: Agreement, offer: Offer, options: SessionOptions): Negotiated {
  const { extensions } = agreement;
  // Link frames are binary; JSON envelopes have no place for them, and resume counts link frames.
  const hasLink = options.subprotocol === Subprotocol.BINARY && extensions.includes(Extension.LINK);
  const names = extensions.filter((name) => hasLink || !NEEDS_LINK.includes(name));
  const avp = names.includes(Extension.AVP) ? avpAgreement(options.avp, offer.extensions) : undefined;
  return pin({
    ...agreement,
    reasons: avp === undefined ? agreement.reasons : [...agreement.reasons, avp.reason],
    avp: avp?.agreement,
    limits: announcedLimits(options.limits),
    extensions: pick(options.capabilities.extensions, names),
  });
}

/** What only exists on the link, and the link itself. */
const NEEDS_LINK: readonly string[] = [
  Extension.LINK,
  Extension.RESUME,
  Extension.CONTEXT,
  Extension.AGENTS,
  Extension.AVP,
];

/** What the introductions of two models come to, and why. */
function avpAgreement(
  own: AvpOptions | undefined,
  peer: StringMap,
): { readonly agreement: AvpAgreement; readonly reason: string } | undefined {
  const stated = peer[Extension.AVP];
  if (own === undefined || stated === undefined) return undefined;
  const { mode, mapId, path } = agreeOnAvp(own, stated);
  return {
    agreement: Object.freeze({ mode, mapId }),
    reason: `tensors travel as ${mode === 'json' ? 'text' : 'they are'}: ${path.replaceAll('_', ' ')}`,
  };
}

/** The ACCEPT that states `negotiated` in the shape of the client. */
export function acceptOf(
  negotiated: Negotiated,
  offer: Offer,
  { timers }: SessionOptions,
  agentId: string | undefined,
  resume: ResumeAnswer | undefined,
): AcceptPayload {
  const { encoding } = negotiated;
  return {
    shape: offer.shape,
    version: negotiated.version,
    algorithms: negotiated.algorithms,
    encoding,
    encodings: encoding === null ? [] : [encoding],
    securityScanning: negotiated.securityScanning,
    sessionTimeoutMs: Number.isFinite(timers.sessionTimeoutMs) ? timers.sessionTimeoutMs : 0,
    maxPayloadSize: negotiated.maxPayloadSize,
    limits: negotiated.limits,
    agentId,
    extensions: negotiated.extensions,
    resume,
  };
}

/**
 * What an ACCEPT means for the client that made `offer`. A flat ACCEPT states an agreement and must
 * not go beyond the offer; a nested one states the server's own capabilities.
 *
 * @param avp the model that was introduced in the offer.
 * @throws {ProtocolError} `bad_acceptance`, and as `agreeOnAvp`.
 */
export function clientAgreement(offer: HelloPayload, accept: AcceptPayload, avp?: AvpOptions): Negotiated {
  const nested = accept.shape === 'nested';
  const assert = (holds: boolean, fault: string): void => {
    if (!holds) throw new ProtocolError('bad_acceptance', `ACCEPT ${fault}`);
  };
  assert(commonVersion(accept.version) !== undefined, `states version ${JSON.stringify(accept.version)}`);

  const offered = (name: Algorithm) => offer.algorithms.includes(name);
  assert(nested || accept.algorithms.every(offered), 'names an algorithm that was not offered');
  let { encoding } = accept;
  const [ours, theirs] = [statedVocabularies(offer.extensions), statedVocabularies(accept.extensions)];
  const isSame = (name: EncodingName) =>
    ours[name] === undefined || theirs[name] === undefined || ours[name] === theirs[name];
  if (nested) {
    // Its preferred encoding is never null, so it counts only where the list has it too.
    const shared = offer.encodings.filter((name) => accept.encodings.includes(name) && isSame(name));
    if (encoding === null || !shared.includes(encoding)) encoding = shared[0] ?? null;
  }
  assert(encoding === null || offer.encodings.includes(encoding), 'chooses an encoding that was not offered');
  assert(encoding === null || isSame(encoding), `chooses another vocabulary by the name of ${encoding}`);
  const hasTokens = accept.algorithms.includes('TOKEN_NATIVE');
  assert(nested || encoding !== null || !hasTokens, 'agrees on TOKEN_NATIVE and on no encoding');
  const algorithms = offer.algorithms.filter(
    (name) => accept.algorithms.includes(name) && (name !== 'TOKEN_NATIVE' || encoding !== null),
  );
  assert(algorithms.length > 0, 'agrees on no algorithm that can be used');

  const names = Object.keys(accept.extensions);
  const known = names.filter((name) => Object.hasOwn(offer.extensions, name));
  assert(nested || known.length === names.length, 'switches on an extension that was not offered');
  assert(
    nested || offer.maxPayloadSize === 0 || accept.maxPayloadSize <= offer.maxPayloadSize,
    'states a larger payload than was offered',
  );
  return pin({
    version: accept.version,
    algorithms,
    encoding,
    securityScanning: accept.securityScanning && offer.securityScanning,
    maxPayloadSize: smallerStated(accept.maxPayloadSize, offer.maxPayloadSize),
    limits: accept.limits,
    extensions: pick(accept.extensions, known),
    avp: known.includes(Extension.AVP) ? avpAgreement(avp, accept.extensions)?.agreement : undefined,
    reasons: [],
  });
}

/**
 * What an end states in its `link` extension; what it does not state is unlimited.
 *
 * @throws {ProtocolError} `bad_message` if the extension is not stated as a JSON object of such numbers.
 */
export function linkParameters(extensions: StringMap): LinkParameters {
  const stated = extensions[Extension.LINK];
  let value: unknown = {};
  try {
    if (stated !== undefined) value = JSON.parse(stated);
  } catch (cause) {
    throw new ProtocolError('bad_message', 'extension link is stated as a JSON object', { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError('bad_message', 'extension link is stated as a JSON object');
  }
  const fields = value as Record<string, unknown>;
  const count = (name: string): number => {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined || field === null) return Infinity;
    if (Number.isInteger(field) && (field as number) > 0) return field as number;
    throw new ProtocolError('bad_message', `extension link: ${name} is a whole number of at least 1`);
  };
  const messages = Object.hasOwn(fields, 'messages') ? fields['messages'] : undefined;
  if (messages !== undefined && messages !== null && typeof messages !== 'boolean') {
    throw new ProtocolError('bad_message', 'extension link: messages is true or false');
  }
  return {
    takesMessages: messages !== false,
    maxStreams: count('max_streams'),
    messageWindow: count('message_window'),
    streamWindow: count('stream_window'),
    maxTransfer: count('max_transfer'),
  };
}

function pin(negotiated: Negotiated): Negotiated {
  return Object.freeze(negotiated);
}

function pick(source: StringMap, names: readonly string[]): StringMap {
  const picked: Record<string, string> = Object.create(null);
  for (const name of names) picked[name] = source[name] as string;
  return Object.freeze(picked);
}

function announcedLimits(limits: Limits): Readonly<Record<string, number>> {
  const announced: Record<string, number> = {};
  for (const name of ANNOUNCED_LIMITS) if (Number.isFinite(limits[name])) announced[name] = limits[name];
  return Object.freeze(announced);
}
