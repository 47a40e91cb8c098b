import { type Logger, ProtocolError } from '@parlance/protocol';
import { encodeFailure, nodeOfReply } from '@parlance/protocol/internal';
import type {
  AppendOutcome,
  EngineBounds,
  EngineEnd,
  EngineEntry,
  ReplyLogs,
  WrittenBy,
} from '../engine/logs/logs.js';
import type { DurableRequest } from '../engine/logs/reply.js';
import { isChanged } from './is-changed.js';

export interface OrphansOptions {
  readonly engine: ReplyLogs;
  readonly bounds: EngineBounds;
  /** Of this node. */
  readonly incarnation: string;
  readonly logger: Logger;
  /** Unix milliseconds. */
  readonly now: () => number;
  /** Whether the lease of a node is not over. @throws {ProtocolError} if this is unknown. */
  readonly isAlive: (incarnation: string) => Promise<boolean>;
  /**
   * Whether the handler of a request is called again when its client comes back, and continues this reply.
   *
   * @default it is not
   * @throws {ProtocolError} if this is unknown.
   */
  readonly isAwaited?: ((source: DurableRequest, id: string) => Promise<boolean>) | undefined;
}

/** A reply that its writer has not touched for so long is not written any more. */
const IDLE_MS = 60_000;

/** Tells which replies of the engine no node writes any more, and ends them. */
export class Orphans {
  readonly #options: OrphansOptions;
  readonly #isWriting: (id: string) => boolean;
  /** Replies that this node does not write any more, and no other one as far as it knows. */
  readonly left = new Set<string>();
  #isChecking = false;

  /** @param isWriting whether this node writes a reply. */
  constructor(options: OrphansOptions, isWriting: (id: string) => boolean) {
    this.#options = options;
    this.#isWriting = isWriting;
  }

  /**
   * Ends each reply of {@link left} that no node continues. Other nodes do not end it, since this one lives. Never
   * rejects.
   */
  async checkLeft(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    const { engine, incarnation } = this.#options;
    for (const id of this.left) {
      try {
        const entry = await engine.find(id);
        if (entry?.by !== incarnation || entry.end !== undefined) this.left.delete(id);
        else if (await this.has(id, entry)) await this.interrupt(entry);
      } catch (error) {
        // An engine that does not answer is asked again later.
        if (!isChanged(error)) break;
        this.left.delete(id);
      }
    }
    this.#isChecking = false;
  }

  async has(id: string, writer: WrittenBy): Promise<boolean> {
    return (await this.#isLeft(id, writer)) && !(await this.#isAwaited(id, writer.source));
  }

  /** No node writes the reply, but its handler may be called again. */
  async #isLeft(id: string, { idleMs, by = nodeOfReply(id) }: WrittenBy): Promise<boolean> {
    if (by === this.#options.incarnation) return !this.#isWriting(id);
    return Math.abs(idleMs) >= IDLE_MS || (by !== undefined && (await this.#isGone(by)));
  }

  /** Ends a reply, unless another node has claimed it meanwhile. */
  async interrupt(entry: EngineEntry): Promise<void> {
    const { id, parts, by = nodeOfReply(id) } = entry;
    if ((await this.#end(entry, lost(), 'orphaned')) !== 'done') return;
    const { logger } = this.#options;
    const fields = { event: 'reply.interrupted', reply: id, node: by, parts };
    logger.info(fields, 'the node that wrote a kept reply is gone, so the reply has ended');
  }

  /** Ends a reply, whose writer stops. */
  cancel(entry: EngineEntry): Promise<AppendOutcome> {
    return this.#end(entry, new ProtocolError('cancelled', 'the reply was stopped'), 'stopped');
  }

  #end(
    { id, owner, ttlMs, epoch }: EngineEntry,
    error: ProtocolError,
    why: EngineEnd['why'],
  ): Promise<AppendOutcome> {
    const { engine, bounds, incarnation: by, now } = this.#options;
    const end = { at: now(), failure: encodeFailure(error), metadata: undefined };
    return engine.end({ id, owner, epoch, ttlMs, parts: undefined, by, end, why }, bounds);
  }

  async #isGone(node: string): Promise<boolean> {
    return !(await this.#options.isAlive(node).catch(() => true));
  }

  async #isAwaited(id: string, source: DurableRequest | undefined): Promise<boolean> {
    if (source === undefined) return false;
    // If it is unknown, it is asked again.
    return (await this.#options.isAwaited?.(source, id).catch(() => true)) === true;
  }
}

export function lost(): ProtocolError {
  return new ProtocolError('interrupted', 'the node that wrote the reply is gone');
}
