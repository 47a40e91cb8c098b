import type { ResumeOffer } from '@parlance/protocol';
import type { ServerEndpoint } from '../session/endpoint.js';
import { ownerOfPrincipal, ownerOfSession } from './owner.js';

/** Checks resume tokens of a session, also after its end. */
export interface ResumeProof {
  matches(token: string): boolean;
  /** Those that match now. */
  readonly tokens: readonly string[];
}

/** A session without a principal that has kept replies, or has taken over those of another one. */
interface Claim {
  readonly owner: Anonymous;
  readonly proof: ResumeProof;
}

/** The owner for which a session without a principal acts, and which of its tokens prove that now. */
export interface OwnerClaim {
  readonly key: string;
  /** When the last of its replies is forgotten, in milliseconds of the process; `undefined` while a handler runs. */
  readonly keptUntil: number | undefined;
  readonly tokens: readonly string[];
}

/** An owner without a principal. */
interface Anonymous {
  readonly key: string;
  /** Replies whose handlers run. */
  running: number;
  /** When the last of the others is forgotten, in milliseconds of the process. */
  keptUntil: number;
}

/** Tells which owner a session acts for. */
export class Owners {
  /** By session ID. */
  readonly #claims = new Map<string, Claim>();
  readonly #anonymous = new WeakMap<ServerEndpoint, Anonymous>();
  /** A session has an owner that its tokens prove. */
  onClaimed: (sessionId: string) => void = () => {};

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

  /**
   * A session begins in place of one that is gone. It gets the replies of that one if it proves to continue it.
   *
   * @returns whether this node can tell.
   */
  adopt(session: ServerEndpoint, { sessionId, token }: ResumeOffer): boolean {
    if (!session.isAnonymous) return true;
    const claim = this.#claims.get(sessionId);
    if (claim === undefined || !claim.proof.matches(token)) return claim !== undefined;
    this.#set(session, claim.owner);
    return true;
  }

  /** An engine has proved the owner that a session acts for; one that it has acted for here stays its owner. */
  assign(session: ServerEndpoint, key: string, keptUntil: number): void {
    if (!session.isAnonymous || this.#anonymous.has(session)) return;
    this.#set(session, { key, running: 0, keptUntil });
  }

  /** The owner that the ID of a session without a principal does not tell. */
  foreign(session: ServerEndpoint): string | undefined {
    const key = this.#anonymous.get(session)?.key;
    return key === ownerOfSession(session.id) ? undefined : key;
  }

  /** The owner that goes along with a session that moves: one that is {@link foreign}, or that the tokens of the session prove. */
  moving(session: ServerEndpoint): string | undefined {
    return this.#claims.has(session.id) ? this.#anonymous.get(session)?.key : this.foreign(session);
  }

  /**
   * A session that has come from another node brings its owner along.
   *
   * @param keptUntil as of {@link assign}, if the tokens that it gets here are to prove its owner.
   */
  restore(session: ServerEndpoint, key: string, keptUntil?: number): void {
    const owner = { key, running: 0, keptUntil: keptUntil ?? 0 };
    if (keptUntil === undefined) this.#anonymous.set(session, owner);
    else this.#set(session, owner);
  }

  /** The session has moved: its tokens change at its next node, which can tell. */
  leave(sessionId: string): void {
    this.#claims.delete(sessionId);
  }

  /** IDs of sessions without a principal that have kept replies, or have taken over those of another one. */
  get claimed(): Iterable<string> {
    return this.#claims.keys();
  }

  claimOf(sessionId: string): OwnerClaim | undefined {
    const claim = this.#claims.get(sessionId);
    if (claim === undefined) return undefined;
    const { key, running, keptUntil } = claim.owner;
    return { key, keptUntil: running > 0 ? undefined : keptUntil, tokens: claim.proof.tokens };
  }

  /** Forgets owners whose replies are forgotten. @param now milliseconds of the process. */
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

  #set(session: ServerEndpoint, owner: Anonymous): void {
    this.#anonymous.set(session, owner);
    this.#claim(session, owner);
  }

  #claim(session: ServerEndpoint, owner: Anonymous): void {
    const { resumeProof } = session.core;
    if (resumeProof === undefined) return;
    this.#claims.set(session.id, { owner, proof: resumeProof });
    this.onClaimed(session.id);
  }
}
