import type { Fields } from './bodies.js';
import type { Windows } from './credit.js';
import { must } from './deviation.js';
import type { NamesAgreed } from './names.js';

/** The offers of the kit, and the agreements of the two ends (section 2). */

export interface Offer {
  /** The credentials in HELLO: `NAME` of a principal, or `NAME:MS`. @default kit */
  readonly token?: string;
  /** The agent that the kit wants to be. */
  readonly agentId?: string;
  /** @default NONE */
  readonly algorithms?: readonly string[];
  readonly encodings?: readonly string[];
  /** How long the session survives without a connection, if the kit is the server. @default 120,000 */
  readonly windowMs?: number;
  /** `limits` of ACCEPT, if the kit is the server. */
  readonly limits?: Fields;
  /** Members of `extensions.link` beside the usual ones. */
  readonly link?: Fields;
  /** More extensions; `undefined` takes a usual one away. */
  readonly extensions?: Readonly<Record<string, string | undefined>>;
}

export interface Agreement {
  readonly sessionId: string;
  readonly algorithms: readonly string[];
  readonly encoding: string | undefined;
  readonly own: Windows;
  readonly peer: Windows;
  readonly names: NamesAgreed;
  readonly context: { readonly maxBytes: number; readonly maxMessages: number } | undefined;
  /** The payload of HELLO. */
  readonly hello: Fields;
  /** The payload of ACCEPT. */
  readonly accept: Fields;
  /** The token for the next connection, from the last ACCEPT. */
  token: string;
  attempt: number;
  /** The reason in the next ACCEPT that resumes. @default none */
  reason?: string;
}

const LINK = { max_streams: 64, message_window: 65_536, stream_window: 65_536, max_transfer: 1_048_576 };

/** The extensions of an offer, as JSON in strings. */
export function extensionsOf({ link = {}, extensions = {} }: Offer): Record<string, string> {
  const stated = { link: JSON.stringify({ ...LINK, ...link }), resume: '{}', ...extensions };
  return Object.fromEntries(
    Object.entries(stated).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

export function helloOf(offer: Offer): Fields {
  const { algorithms = ['NONE'], encodings = [], token = 'kit', agentId } = offer;
  return {
    version: '1.0',
    algorithms,
    encodings,
    preferred_encoding: encodings[0] ?? null,
    security_scanning: false,
    max_payload_size: 0,
    supports_streaming: true,
    extensions: extensionsOf(offer),
    auth: { token },
    ...(agentId !== undefined && { agent_id: agentId }),
  };
}

/** @throws {Deviation} if a member is not what section 4 says. */
export function windowsOf(text: unknown, bytes?: Uint8Array): Windows {
  must(typeof text === 'string', 'extensions.link is not a text', bytes);
  const stated = parametersOf(text, 'link', bytes);
  const numberOf = (name: string): number => {
    const value = stated[name];
    if (value === undefined || value === null) return Number.POSITIVE_INFINITY;
    must(
      typeof value === 'number' && Number.isInteger(value) && value >= 1,
      `${name} is ${JSON.stringify(value)}, not a whole number of at least 1`,
      bytes,
    );
    return value;
  };
  return {
    maxStreams: numberOf('max_streams'),
    messages: numberOf('message_window'),
    stream: numberOf('stream_window'),
  };
}

/** How much both ends keep of each direction. */
export function contextOf(own: string | undefined, peer: unknown, bytes?: Uint8Array): Agreement['context'] {
  if (own === undefined || peer === undefined) return undefined;
  must(typeof peer === 'string', 'extensions.context is not a text', bytes);
  const both = [parametersOf(own, 'context'), parametersOf(peer, 'context', bytes)];
  // Null counts as absent, and these two have to be there.
  const least = (name: string): number => Math.min(...both.map((each) => Number(each[name] ?? Number.NaN)));
  const [maxBytes, maxMessages] = [least('max_bytes'), least('max_messages')];
  must(
    Number.isInteger(maxBytes) && Number.isInteger(maxMessages),
    'extensions.context is not complete',
    bytes,
  );
  return { maxBytes, maxMessages };
}

/** The values for which the member `std` stands (section 2). */
const STANDARD = {
  link: { max_streams: 128, message_window: 1_048_576, stream_window: 16_384, max_transfer: 1_073_741_824 },
  context: { max_bytes: 4_194_304, max_messages: 8 },
} as const;

/** The parameters of an extension, with the standard values of those that are left out. */
export function parametersOf(text: string, name: keyof typeof STANDARD, bytes?: Uint8Array): Fields {
  const stated = jsonOf(text, `extensions.${name}`, bytes);
  if (stated['std'] !== 1) return stated;
  // Null counts as absent here, too.
  const named = Object.entries(stated).filter(([, value]) => value !== null);
  return { ...STANDARD[name], ...Object.fromEntries(named) };
}

export function jsonOf(text: string, what: string, bytes?: Uint8Array): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {}
  must(typeof value === 'object' && value !== null, `${what} is not a JSON object`, bytes);
  return value as Fields;
}
