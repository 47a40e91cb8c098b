import { fail } from './expect.js';
import { Fields } from './fields.js';

/**
 * The agreement that two ends must reach (protocol page, section 2), and capabilities as the vectors state them: written
 * independently of the code under test.
 */

export interface Capability {
  readonly shape: 'flat' | 'nested';
  readonly version: string;
  readonly algorithms: readonly string[];
  readonly encodings: readonly string[];
  readonly preferred: string | null;
  readonly maxPayloadSize: number;
  readonly scanning: boolean;
  readonly agentId: string | undefined;
  readonly extensions: Readonly<Record<string, unknown>>;
}

/** Names without case and separators, in which the two spellings differ. */
const ALGORITHMS: Readonly<Record<string, string>> = {
  m2m: 'M2M',
  tokennative: 'TOKEN_NATIVE',
  token: 'TOKEN',
  brotli: 'BROTLI',
  dictionary: 'DICTIONARY',
  none: 'NONE',
};
const ENCODINGS: Readonly<Record<string, string>> = {
  cl100kbase: 'CL100K_BASE',
  o200kbase: 'O200K_BASE',
  llamabpe: 'LLAMA_BPE',
};

export const ALL_ALGORITHMS = Object.values(ALGORITHMS);

/** The canonical name of an algorithm in any spelling; undefined if there is none. */
export function algorithmNamed(name: string): string | undefined {
  return lookUp(ALGORITHMS, name);
}

/** Reads the payload of a HELLO or ACCEPT; unknown names in its lists are skipped. */
export function capabilityOf(payload: Fields): Capability {
  const nested = payload.has('compression');
  const lists = nested ? payload.object('compression') : payload;
  const security = nested ? payload.object('security') : payload;
  const known = (name: string, table: Readonly<Record<string, string>>) =>
    (lists.maybe('texts', name) ?? []).flatMap((entry) => lookUp(table, entry) ?? []);
  const preferred = lists.maybe('text', nested || !lists.has('encoding') ? 'preferred_encoding' : 'encoding');
  const encodings = known('encodings', ENCODINGS);
  return {
    shape: nested ? 'nested' : 'flat',
    version: payload.maybe('text', 'version') ?? '',
    algorithms: known('algorithms', ALGORITHMS),
    encodings,
    preferred: (preferred && lookUp(ENCODINGS, preferred)) || null,
    maxPayloadSize: lists.maybe('number', nested ? 'max_payload' : 'max_payload_size') ?? 0,
    scanning: security.maybe('flag', nested ? 'threat_detection' : 'security_scanning') ?? false,
    agentId: payload.maybe('text', 'agent_id') || undefined,
    extensions: (payload.raw('extensions') ?? {}) as Record<string, unknown>,
  };
}

/** The payload of an envelope. */
export function payloadOf(envelope: string): Fields {
  const message = new Fields(JSON.parse(envelope) as Record<string, unknown>);
  return message.has('payload') ? message.object('payload') : new Fields({});
}

/** A possible agreement of two ends; without a common algorithm there is none. */
export interface Agreement {
  readonly encoding: string | null;
  readonly algorithms: readonly string[];
}

export type Agreed =
  | { readonly reject: 'VERSION_MISMATCH' | 'NO_COMMON_ALGORITHM' }
  /** Any of these is right; there is more than one only if the rules leave a choice. */
  | { readonly agreements: readonly Agreement[] };

const MAJORS = ['1', '3'];

/** The required result for a client's offer and a server's capabilities. */
export function agree(offer: Capability, support: Capability): Agreed {
  if (!speaks(offer.version)) return { reject: 'VERSION_MISMATCH' };
  const agreements = agreedEncodings(offer, support).map((encoding) => ({
    encoding,
    algorithms: offer.algorithms.filter(
      (name) => support.algorithms.includes(name) && (name !== 'TOKEN_NATIVE' || encoding !== null),
    ),
  }));
  const possible = agreements.filter(({ algorithms }) => algorithms.length > 0);
  return possible.length === 0 ? { reject: 'NO_COMMON_ALGORITHM' } : { agreements: possible };
}

export function speaks(version: string): boolean {
  return MAJORS.includes(version.split('.')[0] as string);
}

/**
 * The client's preferred encoding if the server has it, else the first one of its list that the server has.
 */
function agreedEncodings(offer: Capability, support: Capability): readonly (string | null)[] {
  const { preferred } = offer;
  const has = (name: string) => support.encodings.includes(name);
  const first = offer.encodings.find(has) ?? null;
  if (preferred === null || !has(preferred)) return [first];
  // A preferred encoding that is missing from the client's own list may be ignored.
  return offer.encodings.includes(preferred) ? [preferred] : [preferred, first];
}

/** The capabilities of a server that gave this answer to an offer. */
export function supportOf(
  offer: Capability,
  answer: { readonly type: string; readonly payload: Fields },
): Capability {
  if (answer.type === 'ACCEPT') return statedBy(answer.payload);
  if (answer.type !== 'REJECT') return fail(`a server answers with ACCEPT or REJECT, not ${answer.type}`);
  // A REJECT contains no lists. If nothing is common, the server has only what was not offered.
  if (answer.payload.text('code') !== 'NO_COMMON_ALGORITHM') return offer;
  return { ...offer, algorithms: ALL_ALGORITHMS.filter((name) => !offer.algorithms.includes(name)) };
}

/** The lists of an ACCEPT: in the nested shape those of the server, in the flat one the agreement. */
export function statedBy(accept: Fields): Capability {
  const stated = capabilityOf(accept);
  if (stated.shape === 'nested' || stated.preferred === null) return stated;
  return { ...stated, encodings: [stated.preferred] };
}

function lookUp(table: Readonly<Record<string, string>>, name: string): string | undefined {
  const folded = name.toLowerCase().replace(/[_-]/g, '');
  return Object.hasOwn(table, folded) ? table[folded] : undefined;
}
