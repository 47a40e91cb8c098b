import type { Turn } from './conversation.js';

/**
 * The chat that a page shows. Its turns are a tree, in which versions of a question stand beside each other; the page shows one way
 * through it.
 */
export class OpenChat {
  /** All turns, the one that was asked first at the beginning. */
  #all: Turn[] = [];
  /** Those that are shown. */
  readonly path: Turn[] = [];

  get all(): readonly Turn[] {
    return this.#all;
  }

  get last(): Turn | undefined {
    return this.path.at(-1);
  }

  /** Shows other turns: the way to the one with the ID `head`, or to the newest. */
  show(turns: readonly Turn[], head: string | undefined): void {
    this.#all = [...turns];
    const end = turns.find(({ id }) => id === head) ?? turns.at(-1);
    this.#go(end === undefined ? undefined : this.#newestFrom(end));
  }

  /** Shows turns of a tab that has not kept their order: each follows the one before. */
  adopt(turns: readonly Turn[]): void {
    const linked: Turn[] = [];
    for (const turn of turns) linked.push({ ...turn, parent: turn.parent ?? linked.at(-1)?.id });
    this.show(linked, linked.at(-1)?.id);
  }

  /** Adds a turn after those that are shown. */
  add(turn: Turn): void {
    this.#all.push(turn);
    this.path.push(turn);
  }

  /** Shows only what comes before this turn. Returns what is shown no more. */
  cut(turn: Turn): Turn[] {
    const at = this.path.indexOf(turn);
    return at < 0 ? [] : this.path.splice(at);
  }

  /** Forgets a turn that is not shown. */
  drop(turn: Turn): void {
    this.#all = this.#all.filter((each) => each !== turn);
  }

  /** All versions of the question of this turn, in the order in which they were asked. */
  versions({ parent }: Turn): Turn[] {
    return this.#all.filter((each) => each.parent === parent);
  }

  /** Shows this version, and what came after it last. */
  choose(version: Turn): void {
    this.#go(this.#newestFrom(version));
  }

  /**
   * Takes over what another tab has stored of this chat. Turns that were here stay the same objects.
   *
   * @param running the turn whose answer this page receives itself.
   * @returns the turns that have changed.
   */
  merge(turns: readonly Turn[], head: string | undefined, running: Turn | undefined): Turn[] {
    const known = new Map(this.#all.map((turn) => [turn.id, turn]));
    const changed: Turn[] = [];
    const all = turns.map((turn) => {
      const present = known.get(turn.id);
      if (present === undefined) return turn;
      if (present !== running && isFurther(turn, present)) changed.push(Object.assign(present, turn));
      return present;
    });
    // The latest question of this page may not be stored yet.
    const isMissing = running !== undefined && known.has(running.id) && !all.includes(running);
    this.show(isMissing ? [...all, running] : all, running?.id ?? head);
    return changed;
  }

  /** From this turn on, always the version that was asked last. */
  #newestFrom(turn: Turn): Turn {
    const next = new Map(this.#all.map((each) => [each.parent, each]));
    let end = turn;
    for (let i = 0; i < this.#all.length; i++) {
      const after = next.get(end.id);
      if (after === undefined) break;
      end = after;
    }
    return end;
  }

  #go(end: Turn | undefined): void {
    const byId = new Map(this.#all.map((turn) => [turn.id, turn]));
    const way: Turn[] = [];
    // A stored tree may be damaged: a way is not longer than all turns.
    for (
      let turn = end;
      turn !== undefined && way.length < this.#all.length;
      turn = byId.get(turn.parent ?? '')
    )
      way.push(turn);
    this.path.splice(0, this.path.length, ...way.reverse());
  }
}

/** How final the end of an answer is. */
export function finality({ state }: Turn): number {
  if (state === 'done') return 3;
  return state === 'stopped' || state === 'failed' ? 2 : state === 'interrupted' ? 1 : 0;
}

function isFurther(turn: Turn, present: Turn): boolean {
  return finality(turn) > finality(present);
}
