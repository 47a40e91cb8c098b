import { platform } from '#platform';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const ID_LENGTH = 20;
const INCARNATION_LENGTH = 6;
const REPLY_ID_LENGTH = 22;
const LOCAL_LENGTH = 22;
const LOCAL_PREFIX = 'local-';
const TOKEN_LENGTH = 32;
/** Larger bytes are skipped: they would make the first letters likelier than the others. */
const FAIR = 256 - (256 % ALPHABET.length);

const SESSION_PREFIX = 'sess_';

/**
 * `sess_` and 20 alphanumerics from a secure random generator: 119 bits.
 *
 * @param incarnation of the node whose session it is, or of the process if there are no nodes. It takes the place of the
 * first 6, which leaves 83 bits.
 */
export function newSessionId(incarnation = ''): string {
  return randomText(ID_LENGTH - incarnation.length, SESSION_PREFIX + incarnation);
}

/** 6 alphanumerics from a secure random generator, for one start of a node or of another server: 35 bits. */
export function newIncarnation(): string {
  return randomText(INCARNATION_LENGTH);
}

/** The node or process that a session ID names, if a server of ours gave it; `undefined` if it has no such name. */
export function incarnationOf(sessionId: string): string | undefined {
  return SESSION_ID.exec(sessionId)?.[1];
}
const SESSION_ID = /^sess_([A-Za-z0-9]{6})[A-Za-z0-9]{14}$/;

/**
 * `reply_` and 22 alphanumerics from a secure random generator: 130 bits.
 *
 * @param incarnation of the node whose reply it is. It takes the place of the first 6, which leaves 95 bits.
 */
export function newReplyId(incarnation = ''): string {
  return randomText(REPLY_ID_LENGTH - incarnation.length, `reply_${incarnation}`);
}

/** The node that the ID of a kept reply names, if a node gave it; `undefined` if it has no such name. */
export function nodeOfReply(id: string): string | undefined {
  return REPLY_ID.exec(id)?.[1];
}
const REPLY_ID = /^reply_([A-Za-z0-9]{6})[A-Za-z0-9]{16}$/;

/** `local-` and 22 alphanumerics from a secure random generator: 130 bits. */
export function newLocalPrincipal(): string {
  return randomText(LOCAL_LENGTH, LOCAL_PREFIX);
}

export function isLocalPrincipal(principal: string): boolean {
  return principal.startsWith(LOCAL_PREFIX);
}

/** 32 alphanumerics from a secure random generator: 190 bits. */
export function newResumeToken(): string {
  return randomText(TOKEN_LENGTH);
}

function randomText(length: number, prefix = ''): string {
  // Built in one step: V8 keeps a concatenated string as a chain of its pieces.
  const codes = Array.from(prefix, (letter) => letter.charCodeAt(0));
  const end = prefix.length + length;
  while (codes.length < end) {
    for (const byte of platform.randomBytes(length * 2)) {
      if (byte < FAIR && codes.length < end) codes.push(ALPHABET.charCodeAt(byte % ALPHABET.length));
    }
  }
  return String.fromCharCode(...codes);
}
