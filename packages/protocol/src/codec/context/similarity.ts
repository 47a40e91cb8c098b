import type { Checkpoints } from './checkpoints.js';
import { commonPrefix, commonSuffix } from './cut.js';
import { type Sketch, samplesOf, sharedWith, sketchOf } from './sketch.js';
import { type Base, type ContextState, NEWEST, NO_BASE, SLOT } from './state.js';

/** A base, and how much of it a message begins and ends with. */
export interface Match {
  /** Position of the base; 0 is none. */
  readonly position: number;
  readonly base: Base | undefined;
  readonly prefix: number;
  readonly suffix: number;
}

export const NO_MATCH: Match = { position: NO_BASE, base: undefined, prefix: 0, suffix: 0 };

/** What the sender remembers of a base beside its content. */
interface Traits {
  /** Shared by versions of one conversation. */
  readonly family: object;
  readonly checkpoints: Checkpoints | undefined;
  sketch: Sketch | undefined;
}

/** Less in common than this is chance. */
const MIN_COVERED = 16;
/** So much in common is none, where nothing else has as much. */
const CLEARLY_COVERED = 64;
/** By how much a base has to be ahead of those of other families to be taken without a closer look. */
const CLEARLY_AHEAD = 4;
/** So much more an older version of a message has to cover, as the newest has most in common elsewhere. */
const WORTH_AGE = 64;
/** Share of passages in common below which a base is no help. */
const MIN_SHARED = 0.1;
/** Shorter messages have too few passages to look for. */
const MIN_SKETCHED = 128;
/** Bytes that a base has to have in common beyond the best one so far to be looked at. */
const PROBE = 8;

/**
 * Finds the base that a message resembles most. What it begins and ends with decides where that is
 * enough: the next request of a conversation begins with the one before, the next part of a stream
 * begins and ends like the last. Where it is not, as between two conversations with the same
 * instructions that were edited near their beginning, passages are looked for that stand anywhere.
 */
export class BaseFinder {
  readonly #traits = new WeakMap<Base, Traits>();

  /** A message has become a base. @param kin what it is another version of. */
  learn(base: Base, kin: Base | undefined, checkpoints: Checkpoints | undefined): void {
    const family = kin && this.#traits.get(kin)?.family;
    this.#traits.set(base, { family: family ?? {}, checkpoints, sketch: undefined });
  }

  checkpointsOf(base: Base | undefined): Checkpoints | undefined {
    return base && this.#traits.get(base)?.checkpoints;
  }

  /**
   * @param isPart parts are held against the last part of their stream first.
   * @param isQuick does not look for passages.
   */
  find(content: Uint8Array, state: ContextState, streamId: number, isPart: boolean, isQuick: boolean): Match {
    const slot = isPart ? state.slot(streamId) : undefined;
    const last = slot && cutAgainst(content, slot, SLOT);
    if (last !== undefined && isEnough(content, last)) return last;

    const matches = this.#bestOfFamilies(content, state.bases);
    if (last !== undefined) matches.push(last);
    matches.sort((a, b) => covered(b) - covered(a));
    const [best = NO_MATCH, second = NO_MATCH] = matches;
    const isClear = covered(best) >= CLEARLY_COVERED && covered(best) >= CLEARLY_AHEAD * covered(second);
    if (isClear || isEnough(content, best)) return best;
    const isTooShort = isQuick || content.length < MIN_SKETCHED;
    const similar = isTooShort ? undefined : this.#mostShared(content, matches);
    return similar ?? (covered(best) < MIN_COVERED ? NO_MATCH : best);
  }

  /** The best match of each family, the newest unless an older one is clearly better. */
  #bestOfFamilies(content: Uint8Array, bases: readonly Base[]): Match[] {
    const found = new Map<object, Match>();
    for (let i = 0; i < bases.length; i++) {
      const base = bases[i] as Base;
      const family = this.#traits.get(base)?.family ?? base;
      const best = found.get(family);
      if (best !== undefined && !mayBeat(content, base.content, best)) continue;
      const match = cutAgainst(content, base, NEWEST + i);
      if (best === undefined || covered(match) > covered(best) + WORTH_AGE) found.set(family, match);
    }
    return [...found.values()];
  }

  /** The match whose base has most of what the message is made of, wherever it stands. */
  #mostShared(content: Uint8Array, matches: readonly Match[]): Match | undefined {
    const samples = samplesOf(content);
    let best: Match | undefined;
    let most = MIN_SHARED;
    for (const match of matches) {
      const traits = match.base && this.#traits.get(match.base);
      if (match.base === undefined || traits === undefined) continue;
      traits.sketch ??= sketchOf(match.base.content);
      const share = Math.max(sharedWith(samples, traits.sketch), covered(match) / content.length);
      if (share <= most) continue;
      most = share;
      best = match;
    }
    return best;
  }
}

function covered({ prefix, suffix }: Match): number {
  return prefix + suffix;
}

/** Half of the message is covered, or nearly all of its base, as where a short history has grown. */
function isEnough(content: Uint8Array, match: Match): boolean {
  if (match.base === undefined || covered(match) < MIN_COVERED) return false;
  const { length } = match.base.content;
  return covered(match) * 2 >= content.length || (length >= MIN_SKETCHED && covered(match) * 8 >= length * 7);
}

/** Whether `base` may have more in common than `best`; a few bytes tell that of most. */
function mayBeat(content: Uint8Array, base: Uint8Array, { prefix, suffix }: Match): boolean {
  const ahead = Math.min(PROBE, content.length - prefix);
  const behind = Math.min(PROBE, content.length - suffix);
  return (
    equalAt(content, prefix, base, prefix, ahead) ||
    equalAt(content, content.length - suffix - behind, base, base.length - suffix - behind, behind)
  );
}

function equalAt(a: Uint8Array, i: number, b: Uint8Array, j: number, length: number): boolean {
  if (j < 0 || j + length > b.length) return false;
  for (let at = 0; at < length; at++) if (a[i + at] !== b[j + at]) return false;
  return true;
}

function cutAgainst(content: Uint8Array, base: Base, position: number): Match {
  const prefix = commonPrefix(content, base.content);
  const most = Math.min(content.length, base.content.length) - prefix;
  return { position, base, prefix, suffix: commonSuffix(content, base.content, most) };
}
