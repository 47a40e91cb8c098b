import { EncodingName } from '../../../base/constants.js';
import { MAX_SHORT } from '../../../tokenizer/short-key.js';
import { TokenTable } from '../../../tokenizer/token-table.js';
import { VOCABULARIES } from '../../../tokenizer/vocabulary.js';
import { importTokens } from '../source.js';

export const ENCODING_NAMES = Object.values(EncodingName);

/** A separate table for one vocabulary, for tests of the parts of `Encoding`. */
export async function loadTable(name: EncodingName): Promise<TokenTable> {
  const table = new TokenTable();
  table.extend(await importTokens(VOCABULARIES[name]));
  return table;
}

/** Bytes in the form that lookups read, with padding after them. */
export function keySource(content: Uint8Array): { bytes: Uint8Array; view: DataView; length: number } {
  const bytes = new Uint8Array(content.length + MAX_SHORT);
  bytes.set(content);
  return { bytes, view: new DataView(bytes.buffer), length: content.length };
}

export function tokenBytes(table: TokenTable, id: number): Uint8Array {
  return table.bytes.subarray(table.offsets[id] as number, table.offsets[id + 1] as number);
}
