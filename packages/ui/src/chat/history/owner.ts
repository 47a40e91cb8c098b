import { isOwn, readToken } from '../../shared/profile.js';

/** Whose chats a page shows: those of its origin, of the server that it talks to, and of the user whose token it presents. */

/** Digits of the hash of a token that name its chats. */
const DIGITS = 16;

/** @returns the name of the user's database; `undefined` if the browser cannot make one that does not betray the token. */
export async function ownerName(server: string): Promise<string | undefined> {
  const own = isOwn(server);
  const host = own || !URL.canParse(server) ? '' : ` ${new URL(server).host}`;
  const token = own ? readToken() : undefined;
  if (token === undefined) return `parlance-chats${host}`;
  // Only pages that came encrypted or from this machine have it.
  const subtle = globalThis.crypto.subtle as SubtleCrypto | undefined;
  if (subtle === undefined) return undefined;
  const hash = new Uint8Array(await subtle.digest('SHA-256', new TextEncoder().encode(token)));
  const digits = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return `parlance-chats${host} ${digits.slice(0, DIGITS)}`;
}
