import type { Arrows } from './arrows.js';
import type { Source } from './sources.js';

/** Folders are rooms: each entry of a package's `src`, a folder or a file, is one, and stands on one floor. */

/** The floor of each room by its name; 1 is the lowest. Imports point to rooms of lower floors only. */
export type Rooms = Readonly<Record<string, number>>;

/** An import of another room that is not on a lower floor. */
export interface UpwardImport {
  readonly from: string;
  readonly to: string;
  /** `cluster -> agents`. */
  readonly pair: string;
}

export class Floors {
  /** Sources that belong to no room. */
  readonly homeless: readonly string[];
  /** Rooms without a source. */
  readonly empty: readonly string[];
  readonly #rooms: Rooms;
  readonly #roomOf: (path: string) => string;

  /** @param folder the `src` of a package. */
  constructor(folder: string, rooms: Rooms, sources: readonly Source[]) {
    this.#rooms = rooms;
    this.#roomOf = (path) => path.slice(folder.length + 1).split('/')[0] as string;
    const used = new Set(sources.map(({ path }) => this.#roomOf(path)));
    this.homeless = sources.map(({ path }) => path).filter((path) => !(this.#roomOf(path) in rooms));
    this.empty = Object.keys(rooms).filter((room) => !used.has(room));
  }

  get rooms(): number {
    return Object.keys(this.#rooms).length;
  }

  get floors(): number {
    return new Set(Object.values(this.#rooms)).size;
  }

  upwardIn(arrows: Arrows): readonly UpwardImport[] {
    return [...arrows].flatMap(([from, targets]) =>
      [...targets].flatMap((to) => {
        const [source, target] = [this.#roomOf(from), this.#roomOf(to)];
        const [floor, above] = [this.#rooms[source], this.#rooms[target]];
        const isUp = source !== target && floor !== undefined && above !== undefined && above >= floor;
        return isUp ? [{ from, to, pair: `${source} -> ${target}` }] : [];
      }),
    );
  }
}
