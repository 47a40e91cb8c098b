import { platform } from '#platform';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const ID_LENGTH = 20;
const TOKEN_LENGTH = 32;
/** Bytes from here on would make the first letters likelier than the others. */
const FAIR = 256 - (256 % ALPHABET.length);

/** `sess_` and 20 random alphanumerics from a secure generator: 119 bits. */
export function newSessionId(): string {
  return `sess_${randomText(ID_LENGTH)}`;
}

/** 32 random alphanumerics from a secure generator: 190 bits. */
export function newResumeToken(): string {
  return randomText(TOKEN_LENGTH);
}

function randomText(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of platform.randomBytes(length * 2)) {
      if (byte < FAIR && text.length < length) text += ALPHABET[byte % ALPHABET.length];
    }
  }
  return text;
}
