import { Buffer } from 'node:buffer';

/** Keeps the upstream's key out of everything that leaves the gateway, also where the upstream repeats it. */
export interface Secret {
  /** Characters; of text that comes in pieces, one less may be the beginning of the secret. */
  readonly length: number;
  hide(text: string): string;
  /** Hides encodings of it too, in which an upstream may repeat it when it explains an error. */
  hideEncoded(text: string): string;
}

const HIDDEN = '[hidden]';
/** Shorter ones are placeholders such as "ollama", which are words that an answer may well have. */
const MIN_LENGTH = 16;

export function createSecret(values: readonly string[]): Secret {
  const secrets = values.filter((value) => value.length >= MIN_LENGTH);
  const encoded = secrets.flatMap(encodings);
  const all = [...secrets, ...encoded];
  return {
    length: Math.max(0, ...all.map((value) => value.length)),
    hide: (text) => replaceAll(text, secrets),
    hideEncoded: (text) => replaceAll(text, all),
  };
}

function replaceAll(text: string, values: readonly string[]): string {
  let hidden = text;
  for (const value of values) if (hidden.includes(value)) hidden = hidden.replaceAll(value, HIDDEN);
  return hidden;
}

/** Bits of a character of base64, and of a byte. */
const SEXTET = 6;
const OCTET = 8;

/**
 * Hexadecimal, and base64 wherever in a text the secret stands: of the three ways in which its bytes can meet the
 * characters, those characters that hold nothing else.
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
