import { Buffer } from 'node:buffer';

/** Removes the upstream's key from everything that leaves the gateway, in case the upstream repeats it. */
export interface Secret {
  /** Length of the longest form. In streamed text, up to one character less may be its beginning. */
  readonly length: number;
  hide(text: string): string;
  /** Also hides encodings of the secret, which an upstream may use in error messages. */
  hideEncoded(text: string): string;
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
