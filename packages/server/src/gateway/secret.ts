/** Keeps the upstream's key out of everything that leaves the gateway, also where the upstream repeats it. */
export interface Secret {
  /** Characters; of text that comes in pieces, one less may be the beginning of the secret. */
  readonly length: number;
  hide(text: string): string;
}

const HIDDEN = '[hidden]';
/** Shorter ones are placeholders such as "ollama", which are words that an answer may well have. */
const MIN_LENGTH = 16;

export function createSecret(values: readonly string[]): Secret {
  const secrets = values.filter((value) => value.length >= MIN_LENGTH);
  return {
    length: Math.max(0, ...secrets.map((value) => value.length)),
    hide(text) {
      let hidden = text;
      for (const value of secrets) if (hidden.includes(value)) hidden = hidden.replaceAll(value, HIDDEN);
      return hidden;
    },
  };
}
