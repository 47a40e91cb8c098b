import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import { encodeUtf8 } from '../../base/text.js';
import { MIN_SECRET_LENGTH } from '../../platform/crypto-suite.js';

/**
 * The key hierarchy of section 7: HKDF-SHA256 without salt over paths that name the key. Whoever
 * holds a secret derives what is below it; nothing leads back up or sideways.
 *
 * The path says which key, the secret says whose: the holder of the master secret and an agent that
 * was given its own key derive different keys from the same path, so both ends of a connection
 * must start from the same secret.
 */

/** Bytes of a derived key unless stated otherwise. */
export const DERIVED_KEY_LENGTH = 32;

/** What an agent's key is for; each purpose has its own. */
export const KeyPurpose = {
  IDENTITY: 'identity',
  ENCRYPTION: 'encryption',
  AUTHENTICATION: 'authentication',
  SESSION: 'session',
} as const;
export type KeyPurpose = (typeof KeyPurpose)[keyof typeof KeyPurpose];

const PURPOSES: readonly string[] = Object.values(KeyPurpose);
const ROOT = 'm2m/v1';
// Words that follow the organisation in paths of their own: an agent of that name would get the key
// of its whole organisation, or of somebody's session.
const RESERVED_IDS: ReadonlySet<string> = new Set(['shared', 'session']);

/**
 * Paths of the hierarchy. Each checks its ids, so that no two different keys have one path.
 *
 * @throws {ProtocolError} `invalid_argument` for an id that {@link isKeyId} refuses.
 */
export const keyPath = {
  /** `m2m/v1/{org}`: the root of an organisation's keys. */
  organisation(org: string): string {
    return `${ROOT}/${keyId(org, 'organisation')}`;
  },

  /** `m2m/v1/{org}/{agent}`: an agent's own key, or with a purpose one below it. */
  agent(org: string, agent: string, purpose?: KeyPurpose): string {
    const path = `${keyPath.organisation(org)}/${keyId(agent, 'agent')}`;
    if (purpose === undefined) return path;
    if (!PURPOSES.includes(purpose)) {
      throw new ProtocolError('invalid_argument', `a key's purpose is one of ${PURPOSES.join(', ')}`);
    }
    return `${path}/${purpose}`;
  },

  /** `m2m/v1/{org}/session/{a}:{b}/{session}`, the same whichever agent is named first. */
  session(org: string, agentA: string, agentB: string, sessionId: string): string {
    const [first, second] = [keyId(agentA, 'agent'), keyId(agentB, 'agent')].sort();
    // Last in its path, so that it may hold more than an id may, but nothing that looks like a path.
    if (!/^[!-.0-~]{1,128}$/.test(sessionId)) {
      throw new ProtocolError(
        'invalid_argument',
        'a session id in a key path is 1 to 128 visible ASCII characters without "/"',
      );
    }
    return `${keyPath.organisation(org)}/session/${first}:${second}/${sessionId}`;
  },

  /** `m2m/v1/{org}/shared`: one key that all agents of an organisation have. */
  shared(org: string): string {
    return `${keyPath.organisation(org)}/shared`;
  },
} as const;

/**
 * Derives the key that `path` names below `secret`.
 *
 * @param secret at least 16 bytes: a master secret, or a key derived earlier.
 * @param path from {@link keyPath}, or another text that names the key's use.
 * @param length bytes. @default 32
 * @throws {ProtocolError} `invalid_key` for a short secret, `invalid_argument` for a length outside
 * 1 to 8160, `lone_surrogate`.
 */
export function deriveKey(
  secret: Uint8Array,
  path: string,
  length: number = DERIVED_KEY_LENGTH,
): Uint8Array<ArrayBuffer> {
  if (secret.length < MIN_SECRET_LENGTH) {
    throw new ProtocolError(
      'invalid_key',
      `a secret has at least ${MIN_SECRET_LENGTH} bytes, not ${secret.length}`,
    );
  }
  return platform.crypto.hkdfSha256(secret, encodeUtf8(path), length);
}

/** Whether `id` can name an organisation or agent: 1 to 128 letters, digits, `-`, `_`; not reserved. */
export function isKeyId(id: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(id) && !RESERVED_IDS.has(id);
}

/**
 * Reads a key from hexadecimal digits of either case.
 *
 * @throws {ProtocolError} `invalid_key` where they are none, an odd number or no digits; the message
 * never repeats them.
 */
export function keyFromHex(hex: string): Uint8Array<ArrayBuffer> {
  if (!/^[0-9A-Fa-f]+$/.test(hex) || hex.length % 2 !== 0) {
    throw new ProtocolError('invalid_key', 'a key in text is an even number of hexadecimal digits');
  }
  return Uint8Array.from({ length: hex.length / 2 }, (_, i) =>
    Number.parseInt(hex.slice(i * 2, i * 2 + 2), 16),
  );
}

function keyId(id: string, what: string): string {
  if (isKeyId(id)) return id;
  throw new ProtocolError(
    'invalid_argument',
    RESERVED_IDS.has(id)
      ? `"${id}" is a reserved word and cannot name an ${what}`
      : `the id of an ${what} is 1 to 128 letters, digits, "-" or "_"`,
  );
}
