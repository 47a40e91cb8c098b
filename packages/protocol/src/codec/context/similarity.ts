import type { Base } from './base.js';
import { type Sketch, samplesOf, sharedWith, sketchOf } from './sketch.js';
import { type ContextState, NEWEST, NO_BASE, SLOT } from './state.js';

/** A base, and how many of its bytes a message begins and ends with. */
export interface Match {
  /** Position of the base; 0 if there is none. */
  readonly position: number;
  readonly base: Base | undefined;
  readonly prefix: number;
  readonly suffix: number;
}

export const NO_MATCH: Match = { position: NO_BASE, base: undefined, prefix: 0, suffix: 0 };

/** The traits of a base that the sender keeps besides its content. */
interface Traits {
  /** Shared by versions of one conversation. */
  readonly family: object;
  sketch: Sketch | undefined;
}

/** Fewer common bytes than this are coincidence. */
const MIN_COVERED = 16;
/** This many common bytes are not a coincidence if no other base comes near. */
const CLEARLY_COVERED = 64;
/** Bytes that are compared at a time. */
const STEP = 16;
/** The factor by which a base must be ahead of other families to be chosen without comparing passages. */
const CLEARLY_AHEAD = 4;
/** Bytes by which an older version must cover more than the newest, which shares most elsewhere. */
const WORTH_AGE = 64;
/** With a smaller share of common passages than this, a base does not help. */
const MIN_SHARED = 0.1;
/** Shorter messages have too few passages to compare. */
const MIN_SKETCHED = 128;
/** A packed base is not restored for a message that it exceeds by more than this factor. */
const MAX_TIMES = 16;
/** Bytes that a base must match beyond the best one so far to be compared at all. */
const PROBE = 8;

/**
 * Finds the base that a message resembles most. If possible, the beginning and the end of the message decide:
 * the next request of a conversation begins with the previous one, and the next part of a stream begins and
 * ends like the last. Otherwise, as between two conversations with the same instructions that were edited
 * near their beginning, it compares passages anywhere in the messages.
 */
export class BaseFinder {
  readonly #traits = new WeakMap<Base, Traits>();

  /** A message has become a base. @param kin the base of which it is another version. */
  learn(base: Base, kin?: Base): void {
    const family = kin && this.#traits.get(kin)?.family;
    this.#traits.set(base, { family: family ?? {}, sketch: undefined });
  }

  /**
   * @param isPart whether to compare with the last part of the stream first.
   * @param isQuick whether to skip the comparison of passages.
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
      if (base.isPacked && content.length * MAX_TIMES < base.length) continue;
      if (best !== undefined && !mayBeat(content, base.content, best)) continue;
      const match = cutAgainst(content, base, NEWEST + i);
      if (best === undefined || covered(match) > covered(best) + WORTH_AGE) found.set(family, match);
    }
    return [...found.values()];
  }

  /** The match whose base shares the most passages with the message. */
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

/** Half of the message is covered, or nearly all of its base, as when a short history has grown. */
function isEnough(content: Uint8Array, match: Match): boolean {
  if (match.base === undefined || covered(match) < MIN_COVERED) return false;
  const { length } = match.base;
  return covered(match) * 2 >= content.length || (length >= MIN_SKETCHED && covered(match) * 8 >= length * 7);
}

/** Whether `base` may match more than `best`; comparing a few bytes rules out most bases. */
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
  const most = Math.min(content.length, base.length) - prefix;
  return { position, base, prefix, suffix: commonSuffix(content, base.content, most) };
}

/** The number of bytes that `a` and `b` both begin with. */
export function commonPrefix(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  const x = new DataView(a.buffer, a.byteOffset, a.length);
  const y = new DataView(b.buffer, b.byteOffset, b.length);
  let at = 0;
  while (at + STEP <= length && sameStep(x, at, y, at)) at += STEP;
  while (at < length && a[at] === b[at]) at++;
  return at;
}

/** The number of bytes that `a` and `b` both end with, but not more than `most`. */
export function commonSuffix(a: Uint8Array, b: Uint8Array, most: number): number {
  const length = Math.min(a.length, b.length, most);
  const x = new DataView(a.buffer, a.byteOffset, a.length);
  const y = new DataView(b.buffer, b.byteOffset, b.length);
  let count = 0;
  while (count + STEP <= length && sameStep(x, a.length - count - STEP, y, b.length - count - STEP))
    count += STEP;
  while (count < length && a[a.length - 1 - count] === b[b.length - 1 - count]) count++;
  return count;
}

/** Whether {@link STEP} bytes are equal. */
function sameStep(x: DataView, i: number, y: DataView, j: number): boolean {
  return (
    ((x.getInt32(i, true) ^ y.getInt32(j, true)) |
      (x.getInt32(i + 4, true) ^ y.getInt32(j + 4, true)) |
      (x.getInt32(i + 8, true) ^ y.getInt32(j + 8, true)) |
      (x.getInt32(i + 12, true) ^ y.getInt32(j + 12, true))) ===
    0
  );
}
