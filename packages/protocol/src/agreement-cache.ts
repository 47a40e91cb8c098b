import type { HelloPayload, Offer } from './messages.js';
import type { Negotiation } from './negotiate.js';
import type { Negotiated } from './session-core.js';

/** What a server answers to one offer. */
export interface Answer {
  readonly offer: Offer;
  /** The offer as text; equal offers have equal texts. */
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
    const key = offerKey(offer);
    const name = `${scope} ${key}`;
    const known = this.#answers.get(name);
    if (known !== undefined) return known;
    const made = answer(offer, key);
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

export function offerKey(offer: Offer): string {
  return JSON.stringify(offer);
}
