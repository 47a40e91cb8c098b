import { parseJson } from '../base/json.js';
import type { Negotiated } from '../session/types.js';
import type { HelloPayload, Offer } from './messages.js';
import type { Negotiation } from './negotiate.js';

/** What a server answers to one offer. */
export interface Answer {
  readonly offer: Offer;
  /** The offer as text; offers of one meaning have one text. */
  readonly key: string;
  readonly outcome: Negotiation;
  /** What is pinned where the outcome is an agreement. */
  readonly negotiated: Negotiated | undefined;
}

/**
 * The answers of one server. Clients of one build offer the same, so their sessions share one answer
 * instead of each working it out and keeping it.
 */
export class AgreementCache {
  readonly #answers = new Map<string, Answer>();

  /** The answer to `hello`, made by `answer` where it is not known. */
  recall(hello: HelloPayload, scope: string, answer: (offer: Offer, key: string) => Answer): Answer {
    const offer = offerOf(hello);
    // By its spelling first: finding out what an offer means takes longer.
    const name = `${scope} ${JSON.stringify(offer)}`;
    const known = this.#answers.get(name);
    if (known !== undefined) return known;
    const made = answer(offer, offerKey(offer));
    if (name.length <= MAX_NAME_LENGTH) {
      if (this.#answers.size >= MAX_ANSWERS) this.#answers.clear();
      this.#answers.set(name, made);
    }
    return made;
  }
}

/** Beyond these, somebody makes offers up. */
const MAX_ANSWERS = 64;
const MAX_NAME_LENGTH = 4096;

export function offerOf({ agentId: _agentId, auth: _auth, resume: _resume, ...offer }: HelloPayload): Offer {
  return offer;
}

/**
 * An offer as text, by what it means: languages order the members of maps as they like, and spell JSON in
 * their own way. Lists keep their order, which is one of preference.
 */
export function offerKey(offer: Offer): string {
  const extensions = Object.entries(offer.extensions).sort(byName);
  return JSON.stringify({
    ...offer,
    extensions: extensions.map(([name, value]) => [name, meaningOf(value)]),
  });
}

/** What an extension states, which is JSON in all that we know. */
function meaningOf(stated: string): unknown {
  try {
    return { json: ordered(parseJson(stated)) };
  } catch {
    return stated;
  }
}

function ordered(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(ordered);
  return Object.fromEntries(
    Object.entries(value)
      .sort(byName)
      .map(([name, member]) => [name, ordered(member)]),
  );
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
