import { Buffer } from 'node:buffer';

/** Removes the upstream's key from everything that leaves the gateway, in case the upstream repeats it. */
export interface Secret {
  /** Hides it in a text, and encodings of it, which an upstream may use in error messages. */
  hide(text: string): string;
  /** Hides it in a body as well if it comes in pieces. */
  filter(): SecretFilter;
}

export interface SecretFilter {
  /** The chunk, after what was held of the one before, but for an end that may begin the secret. */
  push(chunk: Uint8Array): Uint8Array;
  /** The bytes that are held. */
  end(): Uint8Array;
}

const HIDDEN = '[hidden]';
/** Shorter values are placeholders such as "ollama", which may occur in answers as words. */
const MIN_LENGTH = 16;

/** Remembers the last secret, as most gateways have one key. */
export function createSecrets(): typeof createSecret {
  let last: Secret | undefined;
  let lastValues: readonly string[] = [];
  return (values) => {
    const isSame = values.length === lastValues.length && values.every((value, i) => value === lastValues[i]);
    if (last === undefined || !isSame) last = createSecret(values);
    lastValues = values;
    return last;
  };
}

export function createSecret(values: readonly string[]): Secret {
  const secrets = values.filter((value) => value.length >= MIN_LENGTH);
  const all = [...new Set([...secrets, ...secrets.flatMap(encodings)])];
  // Latin-1 has a character for each byte.
  const bytes = [...new Set(all.map((value) => Buffer.from(value).toString('latin1')))];
  return {
    hide: (text) => replaceAll(text, all),
    filter: () => (bytes.length === 0 ? NO_FILTER : createFilter(bytes)),
  };
}

const NOTHING = new Uint8Array(0);
const NO_FILTER: SecretFilter = { push: (chunk) => chunk, end: () => NOTHING };

function createFilter(values: readonly string[]): SecretFilter {
  let held = '';
  return {
    push(chunk) {
      const text = held + Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString('latin1');
      const hidden = replaceAll(text, values);
      const end = hidden.length - begunLength(hidden, values);
      if (end === chunk.length && held === '' && hidden === text) return chunk;
      held = hidden.slice(end);
      return Buffer.from(hidden.slice(0, end), 'latin1');
    },
    end() {
      const rest = Buffer.from(held, 'latin1');
      held = '';
      return rest;
    },
  };
}

/** How many of the last characters of a text begin one of the values, and are not all of it. */
function begunLength(text: string, values: readonly string[]): number {
  let most = 0;
  for (const value of values) {
    const first = value[0] as string;
    let at = text.indexOf(first, Math.max(0, text.length - value.length + 1));
    while (at >= 0 && text.length - at > most) {
      if (value.startsWith(text.slice(at))) most = text.length - at;
      at = text.indexOf(first, at + 1);
    }
  }
  return most;
}

function replaceAll(text: string, values: readonly string[]): string {
  let hidden = text;
  for (const value of values) if (hidden.includes(value)) hidden = hidden.replaceAll(value, HIDDEN);
  return hidden;
}

/** Bits per base64 character and per byte. */
const SEXTET = 6;
const OCTET = 8;

/**
 * Hexadecimal and base64 forms. In base64, the characters depend on the position of the secret modulo three bytes; for
 * each of the three cases, these are the characters that encode only bits of the secret.
 */
function encodings(value: string): string[] {
  const bytes = Buffer.from(value);
  const forms = new Set([bytes.toString('hex'), bytes.toString('hex').toUpperCase()]);
  for (const before of [0, 1, 2]) {
    const padded = Buffer.concat([Buffer.alloc(before), bytes]);
    const first = Math.ceil((before * OCTET) / SEXTET);
    const last = Math.floor((padded.length * OCTET) / SEXTET);
    forms.add(padded.toString('base64').slice(first, last));
    forms.add(padded.toString('base64url').slice(first, last));
  }
  return [...forms];
}
