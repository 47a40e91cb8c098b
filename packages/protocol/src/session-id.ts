import { platform } from '#platform';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const LENGTH = 20;
/** Bytes from here on would make the first letters likelier than the others. */
const FAIR = 256 - (256 % ALPHABET.length);

/** `sess_` and 20 random alphanumerics from a secure generator: 119 bits. */
export function newSessionId(): string {
  let id = '';
  while (id.length < LENGTH) {
    for (const byte of platform.randomBytes(LENGTH * 2)) {
      if (byte < FAIR && id.length < LENGTH) id += ALPHABET[byte % ALPHABET.length];
    }
  }
  return `sess_${id}`;
}
