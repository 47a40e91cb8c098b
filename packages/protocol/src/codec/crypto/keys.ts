import { cryptoSuite } from '#crypto';
import { ProtocolError } from '../../base/errors.js';
import { encodeUtf8 } from '../../base/text.js';
import { MIN_SECRET_LENGTH } from '../../platform/crypto-suite.js';

/**
 * The key hierarchy of section 7: HKDF-SHA256 without salt over paths that name the key. The holder of a
 * secret can derive the keys below it, but none above or beside it.
 *
 * A key depends on both path and secret: the holder of the master secret, and an agent that was given only
 * its own key, derive different keys from the same path. So both ends of a connection must start from the
 * same secret.
 */

/** Default length of a derived key, in bytes. */
export const DERIVED_KEY_LENGTH = 32;

/** The purpose of an agent's key; each purpose has its own key. */
export const KeyPurpose = {
  IDENTITY: 'identity',
  ENCRYPTION: 'encryption',
  AUTHENTICATION: 'authentication',
  SESSION: 'session',
} as const;
export type KeyPurpose = (typeof KeyPurpose)[keyof typeof KeyPurpose];

const PURPOSES: readonly string[] = Object.values(KeyPurpose);
const ROOT = 'm2m/v1';
// These words follow the organisation in other paths: an agent with such a name would get the key of its
// whole organisation or of a session.
const RESERVED_IDS: ReadonlySet<string> = new Set(['shared', 'session']);

/**
 * The paths of the hierarchy. Each function checks its ids, so that two different keys never have the same
 * path.
 *
 * @throws {ProtocolError} `invalid_argument` for an id that {@link isKeyId} refuses.
 */
export const keyPath = {
  /** `m2m/v1/{org}`: the root of an organisation's keys. */
  organisation(org: string): string {
    return `${ROOT}/${keyId(org, 'organisation')}`;
  },

  /** `m2m/v1/{org}/{agent}`: an agent's own key; with a purpose, the key for it, one level below. */
  agent(org: string, agent: string, purpose?: KeyPurpose): string {
    const path = `${keyPath.organisation(org)}/${keyId(agent, 'agent')}`;
    if (purpose === undefined) return path;
    if (!PURPOSES.includes(purpose)) {
      throw new ProtocolError('invalid_argument', `a key's purpose must be one of ${PURPOSES.join(', ')}`);
    }
    return `${path}/${purpose}`;
  },

  /** `m2m/v1/{org}/session/{a}:{b}/{session}`, the same for either order of the agents. */
  session(org: string, agentA: string, agentB: string, sessionId: string): string {
    const [first, second] = [keyId(agentA, 'agent'), keyId(agentB, 'agent')].sort();
    // The session id is the last part of its path, so it may hold more characters than other ids, but no
    // slash.
    if (!/^[!-.0-~]{1,128}$/.test(sessionId)) {
      throw new ProtocolError(
        'invalid_argument',
        'a session id in a key path must be 1 to 128 visible ASCII characters without "/"',
      );
    }
    return `${keyPath.organisation(org)}/session/${first}:${second}/${sessionId}`;
  },

  /** `m2m/v1/{org}/shared`: a key that all agents of an organisation have. */
  shared(org: string): string {
    return `${keyPath.organisation(org)}/shared`;
  },
} as const;

/**
 * Derives the key that `path` names from `secret`.
 *
 * @param secret at least 16 bytes: a master secret, or a key derived earlier.
 * @param path from {@link keyPath}, or any other text that names the use of the key.
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
      `a secret must have at least ${MIN_SECRET_LENGTH} bytes, not ${secret.length}`,
    );
  }
  return cryptoSuite.hkdfSha256(secret, encodeUtf8(path), length);
}

/**
 * Whether `id` can name an organisation or agent: 1 to 128 letters, digits, `-` or `_`, and not a reserved
 * word.
 */
export function isKeyId(id: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(id) && !RESERVED_IDS.has(id);
}

/**
 * Reads a key from hexadecimal digits of either case.
 *
 * @throws {ProtocolError} `invalid_key` if `hex` is empty, has an odd length or holds another character. The
 * message never repeats `hex`.
 */
export function keyFromHex(hex: string): Uint8Array<ArrayBuffer> {
  if (!/^[0-9A-Fa-f]+$/.test(hex) || hex.length % 2 !== 0) {
    throw new ProtocolError('invalid_key', 'a key as text must be an even number of hexadecimal digits');
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
      : `the id of an ${what} must be 1 to 128 letters, digits, "-" or "_"`,
  );
}
