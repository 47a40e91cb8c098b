import { encodeUtf8 } from '../../packages/protocol/src/base/text.js';
import { ContextState } from '../../packages/protocol/src/codec/context/state.js';
import { code, table } from './markdown.js';

/** A history of one direction, with room for 20 bytes and three messages, kept by the code of both ends. */
export function contextTable(): string {
  const state = new ContextState({ maxBytes: 20, maxMessages: 3 });
  const names = new Map<Uint8Array, string>();
  const rows: string[][] = [];
  const under = new Map<number, { content: Uint8Array; replaces: boolean }>();
  const note = (what: string) =>
    rows.push([
      what,
      state.bases.map(({ content }) => `${names.get(content)} (${content.length})`).join(', ') || 'empty',
      String(state.bytes),
    ]);
  const begin = (stream: number, name: string, length: number, base: number, replaces = false) => {
    const content = encodeUtf8(name.padEnd(length, name));
    names.set(content, name);
    state.begin(stream, state.baseAt(base, stream));
    under.set(stream, { content, replaces });
    const named =
      base === 0 ? 'without a base' : `against base ${base}${replaces ? ', taking its place' : ''}`;
    note(`first frame of ${code(name)} (${length} bytes) ${named}`);
  };
  const complete = (stream: number) => {
    const { content, replaces } = under.get(stream) as { content: Uint8Array; replaces: boolean };
    state.complete(stream, { content, isPart: false, replaces });
    note(`last frame of ${code(names.get(content) as string)}`);
  };
  begin(1, 'A', 6, 0);
  complete(1);
  begin(3, 'B', 6, 0);
  complete(3);
  begin(5, 'C', 8, 3, true);
  complete(5);
  begin(7, 'D', 9, 3);
  begin(9, 'E', 7, 0);
  complete(9);
  begin(11, 'F', 15, 0);
  complete(11);
  complete(7);
  begin(13, 'G', 21, 0);
  complete(13);
  return table(['frame', 'list afterwards, newest first', 'bytes'], rows);
}
