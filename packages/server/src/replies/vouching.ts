import { createHash } from 'node:crypto';
import type { Logger } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { ReplyEngine } from '../backplane/replies.js';
import type { Owners } from './owners.js';

export interface VouchingOptions {
  readonly engine: ReplyEngine;
  readonly owners: Owners;
  readonly logger: Logger;
  /** Unix milliseconds. */
  readonly now: () => number;
}

interface Said {
  readonly tokens: string;
  /** Unix milliseconds. */
  readonly until: number;
}

/** How long what the engine knows of a session is kept at least, and how long before that it is said again. */
const TTL_MS = 600_000;
const MARGIN_MS = 300_000;

/**
 * Tells the engine whom sessions without a principal act for, so that a session that begins in place of one can prove that
 * also when the node of that one has died. The engine gets hashes of resume tokens.
 */
export class Vouching {
  readonly #options: VouchingOptions;
  /** By session ID. */
  readonly #said = new Map<string, Said>();

  constructor(options: VouchingOptions) {
    this.#options = options;
  }

  /** Says what is not said yet. Call it about once a second. */
  update(): void {
    const now = this.#options.now();
    const current = new Set<string>();
    for (const { sessionId, key, keptUntil = now + MARGIN_MS + 1, tokens } of this.#options.owners.claims()) {
      current.add(sessionId);
      const said = this.#said.get(sessionId);
      const joined = tokens.join(' ');
      const isSaid = said?.tokens === joined && (said.until >= keptUntil || said.until - now > MARGIN_MS);
      if (isSaid) continue;
      const ttlMs = Math.max(TTL_MS, keptUntil - now);
      this.#said.set(sessionId, { tokens: joined, until: now + ttlMs });
      void this.#vouch(sessionId, key, tokens, ttlMs);
    }
    for (const sessionId of this.#said.keys()) if (!current.has(sessionId)) this.#said.delete(sessionId);
  }

  async #vouch(sessionId: string, key: string, tokens: readonly string[], ttlMs: number): Promise<void> {
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
}

/** What the engine knows of a token. */
export function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
