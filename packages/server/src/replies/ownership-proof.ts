import { createHash } from 'node:crypto';
import type { Logger, ResumeOffer } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { ReplyLogs } from '../engine/logs/logs.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { OwnerClaim, Owners } from './owners.js';

export interface OwnershipProofOptions {
  readonly engine: Pick<ReplyLogs, 'vouch' | 'prove'>;
  readonly owners: Owners;
  readonly logger: Logger;
  /** The longest time for which a reply is kept, in milliseconds. */
  readonly maxTtlMs: number;
  /** Milliseconds of the process. */
  readonly now: () => number;
}

interface Said {
  readonly tokens: string;
  /** Milliseconds of the process. */
  readonly until: number;
}

/** How long what the engine knows of a session is kept at least, and how long before that it is said again. */
const TTL_MS = 600_000;
const MARGIN_MS = 300_000;

/**
 * Tells the engine whom sessions without a principal act for, so that a session that begins in place of one can prove that
 * at every node, also when the node of that one has died. The engine gets hashes of resume tokens.
 */
export class OwnershipProof {
  readonly #options: OwnershipProofOptions;
  /** By session ID. */
  readonly #said = new Map<string, Said>();
  /** Sessions whose owners the engine is asked for. */
  readonly #proofs = new WeakMap<ServerEndpoint, Promise<void>>();

  constructor(options: OwnershipProofOptions) {
    this.#options = options;
    // At once, since its page may be loaded again at another node at once.
    options.owners.onClaimed = (sessionId) => this.update(sessionId);
  }

  /** Says what is not said yet, and forgets what is over. Call it about once a second: tokens change. */
  updateAll(): void {
    const { owners } = this.#options;
    for (const sessionId of owners.claimed) this.update(sessionId);
    for (const sessionId of this.#said.keys())
      if (owners.claimOf(sessionId) === undefined) this.#said.delete(sessionId);
  }

  update(sessionId: string): void {
    const claim = this.#options.owners.claimOf(sessionId);
    if (claim === undefined) return;
    const now = this.#options.now();
    const { keptUntil = now + MARGIN_MS + 1, tokens } = claim;
    const said = this.#said.get(sessionId);
    const joined = tokens.join(' ');
    if (said?.tokens === joined && (said.until >= keptUntil || said.until - now > MARGIN_MS)) return;
    const ttlMs = Math.max(TTL_MS, keptUntil - now);
    this.#said.set(sessionId, { tokens: joined, until: now + ttlMs });
    void this.#vouch(sessionId, claim, ttlMs);
  }

  async #vouch(sessionId: string, { key, tokens }: OwnerClaim, ttlMs: number): Promise<void> {
    const { engine, logger } = this.#options;
    try {
      await engine.vouch(sessionId, key, tokens.map(hashOf), ttlMs);
    } catch (error) {
      // It is said again.
      this.#said.delete(sessionId);
      const fields = { event: 'replies.unproven', session: sessionId, err: loggable(error) };
      logger.debug(fields, 'the engine does not take whom a session acts for');
    }
  }

  /** Asks the engine who a session acts for that begins in place of one of another node. Never rejects. */
  prove(session: ServerEndpoint, resume: ResumeOffer): Promise<void> {
    const proof = this.#prove(session, resume);
    this.#proofs.set(session, proof);
    return proof;
  }

  /** Resolves when it is known who a session acts for; `undefined` if it is. */
  proven(session: ServerEndpoint): Promise<void> | undefined {
    return this.#proofs.get(session);
  }

  async #prove(session: ServerEndpoint, { sessionId, token }: ResumeOffer): Promise<void> {
    const { engine, owners, logger, maxTtlMs, now } = this.#options;
    try {
      const key = await engine.prove(sessionId, hashOf(token));
      if (key !== undefined) owners.assign(session, key, now() + maxTtlMs);
    } catch (error) {
      const fields = { event: 'replies.unproven', session: session.id, err: loggable(error) };
      logger.warn(
        fields,
        'the engine does not say who a session acts for; it gets no replies of an earlier one',
      );
    }
  }
}

/** The hash of a token, which is all that the engine knows of it. */
function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
