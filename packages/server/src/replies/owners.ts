import type { ResumeOffer } from '@parlance/protocol';
import type { ServerEndpoint } from '../endpoint.js';
import { ownerOfPrincipal, ownerOfSession } from './owner.js';

/** Checks resume tokens of a session, also after its end. */
export interface ResumeProof {
  matches(token: string): boolean;
}

/** A session without a principal that has kept replies, or has taken over those of another one. */
interface Claim {
  readonly owner: Anonymous;
  readonly proof: ResumeProof;
}

/** An owner without a principal. */
interface Anonymous {
  readonly key: string;
  /** Replies whose handlers run. */
  running: number;
  /** When the last of the others is forgotten. Unix milliseconds. */
  keptUntil: number;
}

/** Tells which owner a session acts for. */
export class Owners {
  /** By session ID. */
  readonly #claims = new Map<string, Claim>();
  readonly #anonymous = new WeakMap<ServerEndpoint, Anonymous>();

  of(session: ServerEndpoint): string {
    const { principal = '', isAnonymous } = session;
    return isAnonymous ? this.#anonymousOf(session).key : ownerOfPrincipal(principal);
  }

  /**
   * A reply of the session is being kept. Without a principal, its resume token will prove who it belongs to.
   *
   * @returns to be called when its handler has ended, with the time at which it is forgotten.
   */
  handleKept(session: ServerEndpoint): (keptUntil: number) => void {
    if (!session.isAnonymous) return () => {};
    const owner = this.#anonymousOf(session);
    owner.running++;
    this.#claim(session, owner);
    return (keptUntil) => {
      owner.running--;
      owner.keptUntil = Math.max(owner.keptUntil, keptUntil);
    };
  }

  /** A session begins in place of one that is gone. It gets the replies of that one if it proves to continue it. */
  adopt(session: ServerEndpoint, { sessionId, token }: ResumeOffer): void {
    const claim = this.#claims.get(sessionId);
    if (claim === undefined || !session.isAnonymous || !claim.proof.matches(token)) return;
    this.#anonymous.set(session, claim.owner);
    this.#claim(session, claim.owner);
  }

  /** Forgets owners whose replies are forgotten. @param now Unix milliseconds. */
  sweep(now: number): void {
    for (const [id, { owner }] of this.#claims) {
      if (owner.running === 0 && now >= owner.keptUntil) this.#claims.delete(id);
    }
  }

  #anonymousOf(session: ServerEndpoint): Anonymous {
    let owner = this.#anonymous.get(session);
    if (owner === undefined) {
      owner = { key: ownerOfSession(session.id), running: 0, keptUntil: 0 };
      this.#anonymous.set(session, owner);
    }
    return owner;
  }

  #claim(session: ServerEndpoint, owner: Anonymous): void {
    const { resumeProof } = session.core;
    if (resumeProof !== undefined) this.#claims.set(session.id, { owner, proof: resumeProof });
  }
}
