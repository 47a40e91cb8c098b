import type { Arrows } from './arrows.js';
import type { Source } from './sources.js';

/** Which file belongs to which room, and which room stands on which floor. */

export interface Room {
  /** Imports point to rooms of lower floors only. 1 is the lowest. */
  readonly floor: number;
  /** Files (`server.ts`), folders (`agents/`) and patterns within a folder (`cluster/roster*.ts`); the longest decides. */
  readonly files: readonly string[];
}

export type Rooms = Readonly<Record<string, Room>>;

/** An import of another room that is not on a lower floor. */
export interface UpwardImport {
  readonly from: string;
  readonly to: string;
  /** `nodes -> agents`. */
  readonly pair: string;
}

export class Floors {
  /** Sources that belong to no room. */
  readonly homeless: readonly string[];
  /** Entries of rooms that no source matches. */
  readonly stale: readonly string[];
  readonly #rooms: Rooms;
  readonly #roomOf = new Map<string, string>();

  /** @param folder the `src` of a package, to which the entries of rooms are relative. */
  constructor(folder: string, rooms: Rooms, sources: readonly Source[]) {
    this.#rooms = rooms;
    const entries = Object.entries(rooms)
      .flatMap(([room, { files }]) => files.map((entry) => ({ room, entry, pattern: patternOf(entry) })))
      .sort((a, b) => b.entry.length - a.entry.length);
    const used = new Set<string>();
    for (const { path } of sources) {
      const found = entries.find(({ pattern }) => pattern.test(path.slice(folder.length + 1)));
      if (found === undefined) continue;
      this.#roomOf.set(path, found.room);
      used.add(found.entry);
    }
    this.homeless = sources.map(({ path }) => path).filter((path) => !this.#roomOf.has(path));
    this.stale = entries.map(({ entry }) => entry).filter((entry) => !used.has(entry));
  }

  /** Rooms that contain a file. */
  get rooms(): number {
    return new Set(this.#roomOf.values()).size;
  }

  get floors(): number {
    return new Set([...this.#roomOf.values()].map((room) => this.#rooms[room]?.floor)).size;
  }

  upwardIn(arrows: Arrows): readonly UpwardImport[] {
    return [...arrows].flatMap(([from, targets]) =>
      [...targets].flatMap((to) => {
        const [source, target] = [this.#roomOf.get(from), this.#roomOf.get(to)];
        if (source === undefined || target === undefined || source === target) return [];
        const isUp = (this.#rooms[target] as Room).floor >= (this.#rooms[source] as Room).floor;
        return isUp ? [{ from, to, pair: `${source} -> ${target}` }] : [];
      }),
    );
  }
}

function patternOf(entry: string): RegExp {
  const text = entry.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '[^/]*');
  return new RegExp(`^${text}${entry.endsWith('/') ? '' : '$'}`);
}
