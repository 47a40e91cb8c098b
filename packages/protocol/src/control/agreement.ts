import { codecs } from '#codecs';
import {
  type Algorithm,
  DURABLE_ONLY,
  type EncodingName,
  Extension,
  NEEDS_LINK,
  NEEDS_RESUME,
  NESTED_PROTOCOL_VERSION,
  PROTOCOL_VERSION,
  Subprotocol,
} from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import { parseJson } from '../base/json.js';
import { ANNOUNCED_LIMITS, type Limits, type Timers } from '../base/limits.js';
import { Memo } from '../base/memo.js';
import type { AvpAgreement, AvpOptions } from '../codec/avp/agreement.js';
import type {
  AcceptPayload,
  CapabilityShape,
  HelloPayload,
  Offer,
  ResumeAnswer,
  ResumeOffer,
} from './messages.js';
import {
  type Agreement,
  type Capabilities,
  commonVersion,
  type Negotiation,
  smallerStated,
  statedVocabularies,
} from './negotiate.js';

/** Builds the payloads of HELLO and ACCEPT, and derives the agreement that each end pins. */

/** The agreement of the two ends, which never changes during a session. */
export interface Negotiated {
  readonly version: string;
  readonly algorithms: readonly Algorithm[];
  readonly encoding: EncodingName | null;
  readonly securityScanning: boolean;
  /** Largest message that either end accepts, in bytes; 0 is unstated. */
  readonly maxPayloadSize: number;
  /** The limits that the client must respect, by name; an absent limit is unlimited. */
  readonly limits: Readonly<Record<string, number>>;
  /** Agreed extensions and their parameters. */
  readonly extensions: StringMap;
  /**
   * How this end sends tensors to the other, if both introduced their models. If not, tensors are sent unchanged,
   * and neither end knows what they mean to the other.
   */
  readonly avp?: AvpAgreement | undefined;
  /** The capabilities were stated in the nested shape, so DATA spells names as the reference implementation does. */
  readonly isNested?: boolean | undefined;
  /** Why the agreement came out like this, one sentence for each decision; empty at the client. */
  readonly reasons: readonly string[];
}

/** The link parameters that an end states in HELLO or ACCEPT; an unstated one is unlimited. */
export interface LinkParameters {
  /** The end reads one-way messages and tensors; if not, it refuses them. */
  readonly takesMessages: boolean;
  /** Number of streams that the peer may have open. */
  readonly maxStreams: number;
  /** Initial credit of stream 0, in charges. */
  readonly messageWindow: number;
  /** Initial credit of every other stream and direction, in charges. */
  readonly streamWindow: number;
  /** Largest tensor, in bytes. */
  readonly maxTransfer: number;
}

/** The options that the HELLO or ACCEPT of an end depends on. */
export interface AgreementOptions {
  readonly subprotocol: Subprotocol;
  /** Client: the capabilities that it offers. Server: those that it supports. */
  readonly capabilities: Capabilities;
  readonly limits: Limits;
  readonly timers: Timers;
  /** Client only: stated in HELLO. */
  readonly agentId?: string | undefined;
  /** Client only: the shape of HELLO; a server answers in the same shape. @default 'flat' */
  readonly shape?: CapabilityShape | undefined;
  /** Client only: in each HELLO that may begin the session. @default none */
  readonly nonce?: Uint8Array | undefined;
  /** The model that this end introduces in its capabilities. @default none */
  readonly avp?: AvpOptions | undefined;
}

/** The HELLO of a client. */
export function helloOf(
  { shape = 'flat', capabilities, agentId, nonce }: AgreementOptions,
  token: string | undefined,
  resume?: ResumeOffer,
): HelloPayload {
  return {
    shape,
    version: shape === 'flat' ? PROTOCOL_VERSION : NESTED_PROTOCOL_VERSION,
    algorithms: capabilities.algorithms,
    encodings: capabilities.encodings,
    // In the flat shape the first one of the list is preferred anyway.
    preferredEncoding: shape === 'nested' ? (capabilities.encodings[0] ?? null) : null,
    securityScanning: capabilities.securityScanning,
    maxPayloadSize: capabilities.maxPayloadSize,
    supportsStreaming: shape === 'nested',
    agentId,
    extensions: capabilities.extensions,
    auth: token === undefined ? undefined : { token },
    resume,
    // A page that takes a session up has seen no ACCEPT yet, either.
    nonce: !resume || resume.rebuild ? nonce : undefined,
  };
}

/**
 * The agreement on `offer` as a server pins it, with the limits that it announces.
 *
 * @param isDurable whether the session is to be recorded, if the client can do that.
 */
export function serverAgreement(
  agreement: Agreement,
  offer: Offer,
  options: AgreementOptions,
  isDurable = false,
): Negotiated {
  const { extensions } = agreement;
  // Link frames are binary, so JSON envelopes cannot carry them; resume, for example, counts link frames.
  const hasLink = options.subprotocol === Subprotocol.BINARY && extensions.includes(Extension.LINK);
  // A nested ACCEPT has no place for what resuming takes.
  const hasResume = offer.shape === 'flat' && extensions.includes(Extension.RESUME);
  const names = extensions.filter(
    (name) =>
      (hasLink || !NEEDS_LINK.includes(name)) &&
      (hasResume || !NEEDS_RESUME.includes(name)) &&
      (offer.shape === 'flat' || name !== Extension.STANDARD) &&
      (isDurable || !DURABLE_ONLY.includes(name)),
  );
  const avp = names.includes(Extension.AVP) ? avpAgreement(options.avp, offer.extensions) : undefined;
  return pin({
    ...agreement,
    reasons: avp === undefined ? agreement.reasons : [...agreement.reasons, avp.reason],
    avp: avp?.agreement,
    limits: announcedLimits(options.limits),
    extensions: pick(options.capabilities.extensions, names),
    isNested: offer.shape === 'nested' || undefined,
  });
}

/** Whether the server records the session. */
export function isDurable({ extensions }: Negotiated): boolean {
  return DURABLE_ONLY.some((name) => extensions[name] !== undefined);
}

/** How tensors travel between the two models that were introduced, and why. */
function avpAgreement(
  own: AvpOptions | undefined,
  peer: StringMap,
): { readonly agreement: AvpAgreement; readonly reason: string } | undefined {
  const stated = peer[Extension.AVP];
  if (own === undefined || stated === undefined) return undefined;
  const { mode, mapId, path } = codecs.avp.get().agreeOnAvp(own, stated);
  return {
    agreement: Object.freeze({ mode, mapId }),
    reason: `tensors travel ${mode === 'json' ? 'as text' : 'unchanged'}: ${path.replaceAll('_', ' ')}`,
  };
}

/** The ACCEPT that states `negotiated` in the shape of the client. */
export function acceptOf(
  negotiated: Negotiated,
  offer: Offer,
  { timers }: AgreementOptions,
  agentId: string | undefined,
  resume: ResumeAnswer | undefined,
): AcceptPayload {
  const { encoding, algorithms, extensions } = negotiated;
  const hasAll =
    Object.hasOwn(extensions, Extension.STANDARD) && algorithms.length === offer.algorithms.length;
  return {
    shape: offer.shape,
    version: negotiated.version,
    algorithms: hasAll ? undefined : algorithms,
    encoding,
    encodings: encoding === null ? [] : [encoding],
    securityScanning: negotiated.securityScanning,
    sessionTimeoutMs: Number.isFinite(timers.idleTimeoutMs) ? timers.idleTimeoutMs : 0,
    maxPayloadSize: negotiated.maxPayloadSize,
    limits: negotiated.limits,
    agentId,
    extensions: negotiated.extensions,
    resume,
  };
}

/**
 * The agreement that an ACCEPT makes with the client that sent `offer`. A flat ACCEPT states an agreement and must
 * not go beyond the offer; a nested one states the server's own capabilities.
 *
 * @param avp the model that the offer introduced.
 * @throws {ProtocolError} `bad_acceptance`, and as `agreeOnAvp`.
 */
export function clientAgreement(offer: HelloPayload, accept: AcceptPayload, avp?: AvpOptions): Negotiated {
  const nested = accept.shape === 'nested';
  const assert = (holds: boolean, fault: string): void => {
    if (!holds) throw new ProtocolError('bad_acceptance', `ACCEPT ${fault}`);
  };
  assert(commonVersion(accept.version) !== undefined, `states version ${JSON.stringify(accept.version)}`);

  const offered = (name: Algorithm) => offer.algorithms.includes(name);
  // A server that has all of them need not say so.
  const agreed = accept.algorithms ?? offer.algorithms;
  assert(nested || agreed.every(offered), 'names an algorithm that was not offered');
  let { encoding } = accept;
  const [ours, theirs] = [statedVocabularies(offer.extensions), statedVocabularies(accept.extensions)];
  const isSame = (name: EncodingName) =>
    ours[name] === undefined || theirs[name] === undefined || ours[name] === theirs[name];
  if (nested) {
    // Its preferred encoding is never null, so it counts only if the list has it too.
    const shared = offer.encodings.filter((name) => accept.encodings.includes(name) && isSame(name));
    if (encoding === null || !shared.includes(encoding)) encoding = shared[0] ?? null;
  }
  assert(encoding === null || offer.encodings.includes(encoding), 'chooses an encoding that was not offered');
  assert(encoding === null || isSame(encoding), `chooses another vocabulary with the name ${encoding}`);
  const hasTokens = agreed.includes('TOKEN_NATIVE');
  assert(nested || encoding !== null || !hasTokens, 'agrees on TOKEN_NATIVE but on no encoding');
  const algorithms = offer.algorithms.filter(
    (name) => agreed.includes(name) && (name !== 'TOKEN_NATIVE' || encoding !== null),
  );
  assert(algorithms.length > 0, 'agrees on no usable algorithm');

  const names = Object.keys(accept.extensions);
  const known = names.filter((name) => Object.hasOwn(offer.extensions, name));
  assert(nested || known.length === names.length, 'enables an extension that was not offered');
  assert(
    nested || offer.maxPayloadSize === 0 || accept.maxPayloadSize <= offer.maxPayloadSize,
    'states a larger payload than the offer',
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
    isNested: nested || undefined,
    reasons: [],
  });
}

/**
 * The parameters that an end states in its `link` extension; an unstated one is unlimited.
 *
 * @throws {ProtocolError} `bad_message` if the extension is not a JSON object with valid parameters.
 */
export function linkParameters(extensions: StringMap): LinkParameters {
  const stated = extensions[Extension.LINK];
  let value: unknown = {};
  try {
    if (stated !== undefined) value = JSON.parse(stated);
  } catch (cause) {
    throw new ProtocolError('bad_message', 'extension link must be a JSON object', { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError('bad_message', 'extension link must be a JSON object');
  }
  const fields = value as Record<string, unknown>;
  const count = (name: string): number => {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined || field === null) return Infinity;
    if (Number.isInteger(field) && (field as number) > 0) return field as number;
    throw new ProtocolError('bad_message', `extension link: ${name} must be a whole number of at least 1`);
  };
  const messages = Object.hasOwn(fields, 'messages') ? fields['messages'] : undefined;
  if (messages !== undefined && messages !== null && typeof messages !== 'boolean') {
    throw new ProtocolError('bad_message', 'extension link: messages must be true or false');
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

/** A server's answer to one offer. */
export interface Answer {
  readonly offer: Offer;
  /** The offer as text; offers that mean the same have the same text. */
  readonly key: string;
  readonly outcome: Negotiation;
  /** The agreement to pin; `undefined` if the offer was rejected. */
  readonly negotiated: Negotiated | undefined;
}

/**
 * The answers of one server. Clients of the same build make the same offer, so their sessions share one answer
 * instead of each computing and keeping its own.
 */
export class AgreementCache {
  readonly #answers = new Memo<Answer>();

  /** The answer to `hello`; calls `answer` if it is not cached. */
  recall(hello: HelloPayload, scope: string, answer: (offer: Offer, key: string) => Answer): Answer {
    const offer = offerOf(hello);
    // The key is the spelling: finding out what an offer means takes longer.
    return this.share(`${scope} ${JSON.stringify(offer)}`, () => answer(offer, offerKey(offer)));
  }

  /** The answer with this name; calls `make` if it is not cached. */
  share(name: string, make: () => Answer): Answer {
    return this.#answers.recall(name, make);
  }
}

export function offerOf(hello: HelloPayload): Offer {
  const { agentId: _agentId, auth: _auth, resume: _resume, nonce: _nonce, ...offer } = hello;
  return offer;
}

/**
 * An offer as text, by its meaning: languages order the members of maps and spell JSON in different ways. Lists
 * keep their order, which is the order of preference.
 */
export function offerKey(offer: Offer): string {
  const extensions = Object.entries(offer.extensions).sort(byName);
  return JSON.stringify({
    ...offer,
    extensions: extensions.map(([name, value]) => [name, meaningOf(value)]),
  });
}

/** The meaning of an extension's parameters, which are JSON in all extensions that we know. */
function meaningOf(stated: string): unknown {
  try {
    return { json: ordered(parseJson(stated)) };
  } catch {
    return stated;
  }
}

function ordered(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(ordered);
  return Object.fromEntries(
    Object.entries(value)
      .sort(byName)
      .map(([name, member]) => [name, ordered(member)]),
  );
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
