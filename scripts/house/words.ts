import { basename } from 'node:path';
import type { Source } from './sources.js';

/** A feature by its word: who speaks of it outside its own rooms. */

export interface Word {
  /** A regular expression, for any case. */
  readonly pattern: string;
  /** Folders and files of the feature itself, from the root of the repository. */
  readonly rooms: readonly string[];
  /**
   * Lines in which the word is plain English and not the feature, each as `NAME.ts: LINE` without the spaces around it.
   * The folder is left out, so that a file may move.
   */
  readonly allowed: readonly string[];
}

export interface Spoken {
  /** Files outside the feature's rooms that speak of it. */
  readonly files: readonly string[];
  /** Allowed lines that no file contains, and rooms that contain no file. */
  readonly stale: readonly string[];
}

export function filesWith({ pattern, rooms, allowed }: Word, sources: readonly Source[]): Spoken {
  const word = new RegExp(pattern, 'i');
  const permitted = new Set(allowed);
  const isInRoom = (path: string) =>
    rooms.some((room) => (room.endsWith('/') ? path.startsWith(room) : path === room));
  const outside = sources.filter(({ path }) => !isInRoom(path));
  const entryOf = (path: string, line: string) => `${basename(path)}: ${line.trim()}`;
  const said = new Set<string>();
  const files = outside.filter(({ path, lines }) => {
    const found = lines.filter((line) => word.test(line)).map((line) => entryOf(path, line));
    for (const entry of found) said.add(entry);
    return found.some((entry) => !permitted.has(entry));
  });
  return {
    files: files.map(({ path }) => path),
    stale: [
      ...allowed.filter((line) => !said.has(line)),
      ...rooms.filter((room) => !sources.some(({ path }) => path.startsWith(room))),
    ],
  };
}
