import { ProtocolError } from '../base/errors.js';
import { BOUNDLESS, type Reservation, SessionMemory } from '../base/memory.js';
import type { MemoryBudget } from '../base/memory-budget.js';
import type { SessionCore } from '../session/types.js';

/** Sessions that hold fewer bytes than this have no account. */
const MIN_COUNTED = 64 * 1024;
/** Bytes of memory of a waiting message beside its content, at this end or under way to another session. */
const MESSAGE_MEMORY = 512;
/** Bytes of memory of an open stream with its handler; the first {@link FREE_STREAMS} are not counted. */
const STREAM_MEMORY = 8 * 1024;
const FREE_STREAMS = 16;

export interface MemoryAccountHost {
  readonly core: SessionCore;
  readonly options: {
    readonly memory?: MemoryBudget | undefined;
    readonly limits: { readonly sessionMemory: number };
    readonly clock: { now(): number };
  };
  /** The principal and the address whose shares of the process's memory the session uses. */
  readonly memoryKeys: readonly string[];
  /** Messages that wait for the reader, or at a server to be written to other sessions. */
  readonly waitingMessages: number;
  pump(): void;
  abort(error: ProtocolError): void;
  crash(error: unknown): void;
}

/**
 * The share of one session in the memory of the process. While memory is scarce, its peer gets no more
 * credit. Most sessions hold too little to be counted and have no {@link SessionMemory}.
 */
export class MemoryAccount {
  readonly #host: MemoryAccountHost;
  #memory: SessionMemory | undefined;
  #isClosed = false;
  /** Waits for memory while the peer gets no credit. */
  #shortage: Reservation | undefined;

  constructor(host: MemoryAccountHost) {
    this.#host = host;
  }

  get memory(): SessionMemory {
    if (this.#memory === undefined) {
      const { core, options } = this.#host;
      const { memory, limits, clock } = options;
      this.#memory = memory?.open(limits.sessionMemory) ?? new SessionMemory(BOUNDLESS, limits.sessionMemory);
      this.#memory.assign(this.#host.memoryKeys);
      this.#memory.onEvict = () => this.#host.abort(evicted());
      this.#memory.onFault = (error) => this.#host.crash(error);
      if (core.state === 'suspended') this.#memory.handleSuspended(clock.now());
      if (this.#isClosed) this.#memory.close();
    }
    return this.#memory;
  }

  /** @param since clock reading, `Infinity` while a connection carries the session. */
  handleSuspended(since: number): void {
    this.#memory?.handleSuspended(since);
  }

  handleTick(now: number): void {
    this.#memory?.handleTick(now);
  }

  /**
   * Reports how much windows and queues hold, and withholds credit while memory is scarce.
   *
   * @param waitingBytes of what the application sends and that is not queued yet.
   */
  update(waitingBytes = 0): void {
    const { core, waitingMessages } = this.#host;
    const streams = Math.max(0, core.channel.openStreams - FREE_STREAMS) * STREAM_MEMORY;
    const { heldBytes, channel } = core;
    const held = heldBytes + channel.packedBytes + waitingMessages * MESSAGE_MEMORY + waitingBytes + streams;
    if (this.#memory === undefined && held < MIN_COUNTED) return;
    const { memory } = this;
    if (!memory.hold(held) || memory.isScarce === (this.#shortage !== undefined)) return;
    if (this.#shortage === undefined) this.#awaitMemory();
    else this.#grantAgain();
  }

  /** From now on memory is given and not counted, as nothing would give it back. */
  close(): void {
    this.#isClosed = true;
    this.#memory?.close();
    this.#shortage = undefined;
  }

  #awaitMemory(): void {
    const { core, options } = this.#host;
    core.channel.holdCredit(true);
    const grantAgain = () => {
      this.#grantAgain();
      this.#host.pump();
    };
    // Sessions that wait for each other release nothing, so one of them continues when its wait times out.
    this.#shortage = this.memory.queue(1, {
      now: options.clock.now(),
      begin: (reservation) => {
        // The byte was reserved only to wait: a body that needs all the memory does not fit beside it.
        reservation.release();
        grantAgain();
      },
      refuse: grantAgain,
    });
  }

  #grantAgain(): void {
    const shortage = this.#shortage;
    this.#shortage = undefined;
    shortage?.release();
    this.#host.core.channel.holdCredit(false);
  }
}

function evicted(): ProtocolError {
  return new ProtocolError(
    'over_budget',
    'other sessions need the memory that this one holds without a connection',
  );
}
