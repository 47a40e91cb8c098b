import { platform } from '#platform';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const ID_LENGTH = 20;
const REPLY_ID_LENGTH = 22;
const TOKEN_LENGTH = 32;
/** Larger bytes are skipped: they would make the first letters likelier than the others. */
const FAIR = 256 - (256 % ALPHABET.length);

/** `sess_` and 20 alphanumerics from a secure random generator: 119 bits. */
export function newSessionId(): string {
  return `sess_${randomText(ID_LENGTH)}`;
}

/** `reply_` and 22 alphanumerics from a secure random generator: 130 bits. */
export function newReplyId(): string {
  return `reply_${randomText(REPLY_ID_LENGTH)}`;
}

/** 32 alphanumerics from a secure random generator: 190 bits. */
export function newResumeToken(): string {
  return randomText(TOKEN_LENGTH);
}

function randomText(length: number): string {
  // Built in one step: V8 keeps a concatenated string as a chain of its pieces.
  const codes: number[] = [];
  while (codes.length < length) {
    for (const byte of platform.randomBytes(length * 2)) {
      if (byte < FAIR && codes.length < length) codes.push(ALPHABET.charCodeAt(byte % ALPHABET.length));
    }
  }
  return String.fromCharCode(...codes);
}
