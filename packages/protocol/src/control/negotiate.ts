import {
  Algorithm,
  type EncodingName,
  Extension,
  NESTED_PROTOCOL_VERSION,
  PROTOCOL_VERSION,
} from '../base/constants.js';
import type { StringMap } from '../base/fields.js';
import { type Offer, RejectCode, type RejectPayload } from './messages.js';

/**
 * The agreement of two ends, as a pure function of what they state. The client's order counts, and the
 * agreement never changes during a session (section 5.8 of the compression document).
 */

/** The capabilities of an end: a client offers them, a server supports them. */
export interface Capabilities {
  /** In order of preference. */
  readonly algorithms: readonly Algorithm[];
  /** In order of preference; the first is the preferred one. */
  readonly encodings: readonly EncodingName[];
  /** Hash of the ranks behind each encoding; an encoding without one matches any. */
  readonly vocabularies: Readonly<Partial<Record<EncodingName, string>>>;
  readonly securityScanning: boolean;
  /** Largest message accepted, in bytes; 0 is unstated. */
  readonly maxPayloadSize: number;
  /** Extensions by name, each with its parameters in its own form. */
  readonly extensions: StringMap;
  /** Bodies must be protected M2M frames, so M2M is the only algorithm. @default false */
  readonly isProtected?: boolean | undefined;
}

export interface Agreement {
  readonly version: string;
  /** The intersection, in the client's order. */
  readonly algorithms: readonly Algorithm[];
  readonly encoding: EncodingName | null;
  readonly securityScanning: boolean;
  /** The smaller of the two stated sizes in bytes; 0 if neither end stated one. */
  readonly maxPayloadSize: number;
  /** Names of the extensions that both ends list. */
  readonly extensions: readonly string[];
  /** Why the agreement came out like this, one sentence for each decision, for people to read. */
  readonly reasons: readonly string[];
}

export type Negotiation =
  | { readonly accepted: true; readonly agreement: Agreement }
  | { readonly accepted: false; readonly reject: RejectPayload };

/** Answers a client's offer with an agreement or with the REJECT to send. */
export function negotiate(offer: Offer, support: Capabilities): Negotiation {
  const version = commonVersion(offer.version);
  if (version === undefined) {
    return refuse(
      RejectCode.VERSION_MISMATCH,
      `version ${JSON.stringify(offer.version.slice(0, 32))} is not supported; supported are 1.x and 3.x`,
    );
  }

  const reasons: string[] = [];
  const encoding = agreeOnEncoding(offer, support, reasons);
  const shared = offer.algorithms.filter((name) => support.algorithms.includes(name));
  const algorithms = encoding === null ? shared.filter((name) => name !== Algorithm.TOKEN_NATIVE) : shared;
  if (algorithms.length < shared.length) reasons.push('TOKEN_NATIVE dropped: no vocabulary in common');
  if (algorithms.length === 0) {
    return refuse(
      RejectCode.NO_COMMON_ALGORITHM,
      support.isProtected === true
        ? `the option "security" of this server demands protected M2M; the client offers ${list(offer.algorithms)}`
        : shared.length === 0
          ? `no algorithm in common: the client offers ${list(offer.algorithms, 'none that is known here')}, the server has ${list(support.algorithms)}`
          : `no vocabulary in common for TOKEN_NATIVE: the client offers ${list(offer.encodings)}, the server has ${list(support.encodings)}`,
    );
  }
  reasons.push(`algorithms ${list(algorithms)}: the ones that both ends list, in the client's order`);

  return {
    accepted: true,
    agreement: {
      version,
      algorithms,
      encoding,
      securityScanning: offer.securityScanning && support.securityScanning,
      maxPayloadSize: smallerStated(offer.maxPayloadSize, support.maxPayloadSize),
      extensions: Object.keys(offer.extensions).filter((name) => Object.hasOwn(support.extensions, name)),
      reasons,
    },
  };
}

/** The version to answer with; `undefined` if the major version is not supported. */
export function commonVersion(stated: string): string | undefined {
  const major = stated.slice(0, stated.indexOf('.') === -1 ? stated.length : stated.indexOf('.'));
  return [PROTOCOL_VERSION, NESTED_PROTOCOL_VERSION].find((ours) => ours.startsWith(`${major}.`));
}

/** The smaller of two sizes; 0 is unstated. */
export function smallerStated(a: number, b: number): number {
  return a === 0 || b === 0 ? a + b : Math.min(a, b);
}

/** The vocabulary hashes that a peer stated; none unless it stated a plain object. */
export function statedVocabularies(extensions: StringMap): Readonly<Record<string, string>> {
  const stated = extensions[Extension.VOCABULARIES];
  if (stated === undefined) return {};
  try {
    const parsed: unknown = JSON.parse(stated);
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return {};
    return Object.fromEntries(Object.entries(parsed).filter(([, hash]) => typeof hash === 'string'));
  } catch {
    return {};
  }
}

function agreeOnEncoding(offer: Offer, support: Capabilities, reasons: string[]): EncodingName | null {
  const theirs = statedVocabularies(offer.extensions);
  const usable = (name: EncodingName): boolean => {
    if (!support.encodings.includes(name)) return false;
    const ours = support.vocabularies[name];
    const stated = Object.hasOwn(theirs, name) ? theirs[name] : undefined;
    if (ours === undefined || stated === undefined || ours === stated) return true;
    reasons.push(`${name} skipped: the two ends have different vocabularies of that name`);
    return false;
  };
  const preferred = offer.preferredEncoding;
  if (preferred !== null && offer.encodings.includes(preferred) && usable(preferred)) {
    reasons.push(`encoding ${preferred}: the client's preferred one`);
    return preferred;
  }
  const first = offer.encodings.find((name) => name !== preferred && usable(name)) ?? null;
  if (first !== null) reasons.push(`encoding ${first}: the first of the client's list that the server has`);
  else reasons.push('no encoding in common');
  return first;
}

function refuse(code: RejectCode, message: string): Negotiation {
  return { accepted: false, reject: { code, message } };
}

const list = (names: readonly string[], none = 'none'): string =>
  names.length === 0 ? none : names.join(', ');
