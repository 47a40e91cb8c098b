import { randomInt } from 'node:crypto';
import { CloseCode, type Logger } from '@parlance/protocol';
import type { Clock } from '@parlance/protocol/internal';
import type { Transport } from '../transport/transport.js';
import { dial } from '../transport/websocket/ws.js';
import type { Dialing } from './dialing.js';
import type { KnownNode, Membership } from './membership.js';

export interface StandingOptions {
  readonly membership: Pick<Membership, 'living' | 'find' | 'isStalled' | 'hasLease' | 'leaseUntil'>;
  /** How another node is asked. */
  dialing(node: KnownNode): Dialing;
  /** Whether this node would take sessions over, as far as it alone decides that. */
  admits(): boolean;
  /** Other nodes take the sessions of this one. Called again while that lasts. */
  onCutOff(): void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Others that are asked at a time. If all nodes lose the engine at once, each asks so many, and others the next time. */
export const MAX_ASKED = 16;
/** How long another node may take to answer, which asks the engine, in milliseconds. */
export const STANDING_TIMEOUT_MS = 2_000;

/**
 * Whether other nodes reach the engine that this one does not reach.
 *
 * A node whose lease is over asks others, as many as {@link MAX_ASKED}. If one of them reaches the engine, or says
 * nothing and so may reach it, this node is cut off, and its recorded sessions continue there. If none does, the engine
 * is gone for all, as far as is known, and no node can take them.
 */
export class Standing {
  readonly #options: StandingOptions;
  /** The lease after which another node was found; a later one ends it. */
  #cutOffSince: number | undefined;
  #asking: Promise<void> | undefined;

  constructor(options: StandingOptions) {
    this.#options = options;
  }

  get isCutOff(): boolean {
    return this.#cutOffSince === this.#options.membership.leaseUntil;
  }

  /** The lease of this node is over. Resolves when the others have answered. Never rejects. */
  async check(): Promise<void> {
    if (this.isCutOff) return this.#options.onCutOff();
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    await this.#asking;
  }

  async #ask(): Promise<void> {
    const { membership, logger, onCutOff } = this.#options;
    const node = await this.#findOne(membership.living);
    // The engine has answered meanwhile.
    if (node === undefined || membership.hasLease) return;
    this.#cutOffSince = membership.leaseUntil;
    const fields = { event: 'node.cut_off', node: node.incarnation };
    logger.warn(
      fields,
      'the engine is reached by another node and not by this one; recorded sessions go there',
    );
    onCutOff();
  }

  /** The first node that may reach the engine; `undefined` if none does. */
  #findOne(nodes: readonly KnownNode[]): Promise<KnownNode | undefined> {
    const asked = someOf(nodes).map(async (node) => {
      if (await this.#mayReach(node)) return node;
      throw new Error('the node does not reach the engine');
    });
    return Promise.any(asked).catch(() => undefined);
  }

  #mayReach(node: KnownNode): Promise<boolean> {
    return new Promise((resolve) => {
      const { dialing, clock } = this.#options;
      const { url, ...options } = dialing(node);
      let wire: Transport | undefined;
      const settle = (may: boolean) => {
        cancel();
        resolve(may);
      };
      const abandon = dial(
        url,
        options,
        (opened) => {
          wire = opened;
          opened.listen({ ...DEAF, onClose: (code) => settle(code === CloseCode.NORMAL) });
        },
        // A process that is gone, or an earlier version, which does not know the question.
        ({ status, code }) => settle(status === undefined && !GONE.has(code)),
      );
      const cancel = clock.after(STANDING_TIMEOUT_MS, () => {
        abandon();
        wire?.terminate();
        resolve(true);
      });
    });
  }

  /** Another node asks. The close code is the answer: 1000 if this one reaches the engine and takes sessions over. Never rejects. */
  async answer(wire: Transport, source: string): Promise<void> {
    wire.listen(DEAF);
    const reaches = await this.#reaches(source);
    wire.close(reaches ? CloseCode.NORMAL : CloseCode.DRAINING, '');
  }

  async #reaches(source: string): Promise<boolean> {
    const { membership, admits } = this.#options;
    if (!admits() || membership.isStalled || !membership.hasLease) return false;
    try {
      // Rejects also in the time that nodes have to announce themselves again after the engine was gone for all.
      await membership.find(source);
      return true;
    } catch {
      return false;
    }
  }
}

function someOf(nodes: readonly KnownNode[]): readonly KnownNode[] {
  const left = [...nodes];
  const some: KnownNode[] = [];
  while (some.length < MAX_ASKED && left.length > 0) some.push(...left.splice(randomInt(left.length), 1));
  return some;
}

/** Of the system: nothing listens there, or the process has just died. */
const GONE: ReadonlySet<string | undefined> = new Set(['ECONNREFUSED', 'ECONNRESET']);
const DEAF = { onMessage() {}, onControl() {}, onData() {}, onDrain() {}, onClose() {}, onFault() {} };
