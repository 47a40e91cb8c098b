import type { GroupMessage } from './delivery.js';
import type { Sequence } from './received-marks.js';

/** Bytes of the messages of one group that are kept, as many as may wait for a member. The last one is kept in any case. */
export const MAX_GROUP_BYTES = 256 * 1024;
/** Bytes of those of all groups. */
export const MAX_BYTES = 16 * 1024 * 1024;
/** Memory that a message takes beside its content. */
const OVERHEAD = 128;

/** A message as it was sent. */
export interface Kept {
  readonly number: number;
  readonly previous: number;
  readonly message: GroupMessage;
  readonly size: number;
  readonly at: number;
}

interface Spoken {
  last: number;
  at: number;
  bytes: number;
  readonly kept: Kept[];
  /** The last message that is not kept any more, and when it was sent. */
  dropped: { readonly number: number; readonly at: number };
}

/** The messages after a mark. */
export interface Missed {
  readonly kept: readonly Kept[];
  /** The number of the last message of the group. */
  readonly last: number;
  /** Messages are missing that were not kept for so long. */
  readonly isIncomplete: boolean;
}

/** The latest messages of one node to groups, for members that are elsewhere when a message comes. */
export class SentMessages {
  readonly #now: () => number;
  readonly #keptMs: number;
  readonly #groups = new Map<string, Spoken>();
  /** In the order in which they were sent. */
  readonly #order = new Map<Kept, string>();
  #last = 0;
  #bytes = 0;

  /** @param keptMs how long a message is kept. */
  constructor(now: () => number, keptMs: number) {
    this.#now = now;
    this.#keptMs = keptMs;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(name: string, message: GroupMessage): Omit<Sequence, 'sender'> {
    const at = this.#now();
    const spoken = this.#groups.get(name) ?? {
      last: 0,
      at,
      bytes: 0,
      kept: [],
      dropped: { number: 0, at: 0 },
    };
    this.#groups.set(name, spoken);
    const kept: Kept = {
      ...{ number: ++this.#last, previous: spoken.last, message, at },
      size: message.size + OVERHEAD,
    };
    spoken.last = kept.number;
    spoken.at = at;
    spoken.kept.push(kept);
    this.#order.set(kept, name);
    spoken.bytes += kept.size;
    this.#bytes += kept.size;
    while (spoken.bytes > MAX_GROUP_BYTES && spoken.kept.length > 1) this.#drop(spoken);
    for (const [, other] of this.#order) {
      if (this.#bytes <= MAX_BYTES) break;
      this.#drop(this.#groups.get(other) as Spoken);
    }
    return kept;
  }

  /** Drops the oldest message of a group. */
  #drop(spoken: Spoken): void {
    const [oldest] = spoken.kept.splice(0, 1) as [Kept];
    this.#order.delete(oldest);
    spoken.bytes -= oldest.size;
    this.#bytes -= oldest.size;
    spoken.dropped = oldest;
  }

  /**
   * @param mark the last message that is known; 0 for none.
   * @param ageMs without a mark: messages that are older are not wanted.
   */
  after(name: string, mark: number, ageMs: number): Missed {
    const spoken = this.#groups.get(name);
    if (spoken === undefined) return { kept: [], last: 0, isIncomplete: false };
    const { kept, last, dropped } = spoken;
    const since = this.#now() - ageMs;
    const isWanted = ({ number, at }: Pick<Kept, 'number' | 'at'>) =>
      mark > 0 ? number > mark : at >= since;
    return { kept: kept.filter(isWanted), last, isIncomplete: dropped.number > 0 && isWanted(dropped) };
  }

  /** Forgets what is old, and groups to which nothing was sent for long. */
  handleTick(): void {
    const end = this.#now() - this.#keptMs;
    for (const [{ at }, name] of this.#order) {
      if (at > end) break;
      this.#drop(this.#groups.get(name) as Spoken);
    }
    for (const [name, { at, kept }] of this.#groups)
      if (kept.length === 0 && at <= end) this.#groups.delete(name);
  }
}

/** Messages with the number before each, of those that were asked for. The first one follows the mark, even if some are not kept. */
export function* inOrder(kept: readonly Kept[], mark: number): Generator<readonly [Kept, number]> {
  let previous = mark;
  for (const each of kept) {
    yield [each, previous];
    previous = each.number;
  }
}
