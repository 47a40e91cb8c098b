import { readFile } from 'node:fs/promises';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Bundle } from './bundle.js';

/** Which module each byte of a page's eager scripts comes from. */

export interface ModuleShare {
  /** `protocol/src/link/frames.ts`, or `@noble/ciphers/chacha.js` for a file of another package. */
  readonly path: string;
  /** `protocol/link`, or the name of another package. */
  readonly room: string;
  /** Minified bytes. */
  readonly raw: number;
  /**
   * The module's part of the scripts' size after gzip. Each gets as much as gzip saves without its text, scaled so
   * that all parts add up to the whole: text that repeats elsewhere costs little.
   */
  readonly gzip: number;
}

/** The modules of a bundle that was made with a source map, the largest first. */
export async function modulesOf({ folder, files }: Bundle): Promise<ModuleShare[]> {
  const found = new Map<string, { raw: number; gzip: number }>();
  for (const { name, gzip, isEager } of files) {
    if (!isEager) continue;
    const text = await readFile(join(folder, name), 'utf8');
    const map = JSON.parse(await readFile(join(folder, `${name}.map`), 'utf8')) as SourceMapPayload;
    const pieces = piecesOf(text, new SourceMap(map));
    const whole = compressedLength(text);
    const saved = new Map<string, number>();
    for (const path of new Set(pieces.map((piece) => piece.path))) {
      const others = pieces.filter((piece) => piece.path !== path).map((piece) => piece.text);
      saved.set(path, Math.max(0, whole - compressedLength(others.join(''))));
    }
    const sum = [...saved.values()].reduce((total, each) => total + each, 0);
    for (const piece of pieces) {
      const share = found.get(piece.path) ?? { raw: 0, gzip: 0 };
      found.set(piece.path, { ...share, raw: share.raw + Buffer.byteLength(piece.text) });
    }
    for (const [path, bytes] of saved) {
      const share = found.get(path) as { raw: number; gzip: number };
      found.set(path, { ...share, gzip: share.gzip + (bytes * gzip) / sum });
    }
  }
  return [...found]
    .map(([path, share]) => ({ path, room: roomOf(path), ...share }))
    .sort((a, b) => b.gzip - a.gzip);
}

/** The modules of each room together. */
export function roomsOf(modules: readonly ModuleShare[]): Omit<ModuleShare, 'path'>[] {
  const rooms = new Map<string, Omit<ModuleShare, 'path'>>();
  for (const { room, raw, gzip } of modules) {
    const sum = rooms.get(room);
    rooms.set(room, { room, raw: raw + (sum?.raw ?? 0), gzip: gzip + (sum?.gzip ?? 0) });
  }
  return [...rooms.values()].sort((a, b) => b.gzip - a.gzip);
}

interface Piece {
  readonly path: string;
  readonly text: string;
}

/** Text that no mapping covers: the bundler's own, such as imports between scripts. */
const BUNDLER = '(bundler)';

function piecesOf(text: string, map: SourceMap): Piece[] {
  const pieces: Piece[] = [];
  for (const [number, line] of text.split(/(?<=\n)/).entries()) {
    let start = 0;
    let path: string | undefined;
    for (let column = 0; column <= line.length; column++) {
      const next = column === line.length ? undefined : sourceAt(map, number, column);
      if (column > 0 && next !== path) {
        pieces.push({ path: path ?? BUNDLER, text: line.slice(start, column) });
        start = column;
      }
      path = next;
    }
  }
  return pieces;
}

function sourceAt(map: SourceMap, line: number, column: number): string {
  const entry = map.findEntry(line, column);
  return 'originalSource' in entry && entry.originalSource !== undefined
    ? readableName(entry.originalSource)
    : BUNDLER;
}

const names = new Map<string, string>();

/** @param source relative to the folder of the built page. */
function readableName(source: string): string {
  let name = names.get(source);
  if (name === undefined) {
    const at = source.lastIndexOf('/node_modules/');
    name =
      at >= 0
        ? source.slice(at + '/node_modules/'.length).replace(/^@parlance\//, '')
        : source.replace(/^.*\/(?:packages|bench\/src\/page)\//, '');
    names.set(source, name);
  }
  return name;
}

function roomOf(path: string): string {
  const own = /^(protocol|client)\/(?:src|dist)\/(.*\/)?/.exec(path);
  if (own !== null) return `${own[1]}/${own[2] ?? ''}`.slice(0, -1);
  return /^(?:@[\w.-]+\/)?[\w.-]+/.exec(path)?.[0] ?? path;
}

const compressedLength = (text: string) => gzipSync(text, { level: 9 }).length;
