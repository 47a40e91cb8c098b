import { beforeAll, describe, expect, it } from 'vitest';
import { ENCODING_NAMES, loadTable, tokenBytes } from '../codec/vocabulary/testing/loaded-table.js';
import { createPlainBpe, type PlainBpe } from './testing/plain-bpe.js';
import { createRandom, mixedText } from './testing/texts.js';
import type { TokenTable } from './token-table.js';
import { VOCABULARIES } from './vocabulary.js';

describe.each(ENCODING_NAMES)('boundaries of %s', (name) => {
  const { ordinary } = VOCABULARIES[name];
  let table: TokenTable;
  let plain: PlainBpe;
  beforeAll(async () => {
    table = await loadTable(name);
    plain = createPlainBpe(table, ordinary);
  });

  function segments(bytes: Uint8Array): Uint8Array[] {
    const found: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = table.boundaries.next(bytes, at, bytes.length);
      expect(end).toBeGreaterThan(at);
      found.push(bytes.subarray(at, end));
      at = end;
    }
    return found;
  }

  it('never fall inside a token', () => {
    for (let id = 0; id < ordinary; id++) {
      const bytes = tokenBytes(table, id);
      // A token may begin inside a character; pieces never do.
      if (((bytes[0] as number) & 0xc0) === 0x80) continue;
      if (table.boundaries.next(bytes, 0, bytes.length) < bytes.length) expect.fail(`token ${id}`);
    }
  });

  it('never fall inside a token that is surrounded by other text', () => {
    const random = createRandom(8);
    for (let i = 0; i < 20_000; i++) {
      const token = Buffer.from(tokenBytes(table, Math.floor(random() * ordinary)));
      if (token.toString('utf8').includes('\ufffd')) continue;
      const before = Buffer.from(random() < 0.5 ? 'é' : 'x');
      const text = Buffer.concat([before, token, Buffer.from('中')]);
      let at = 0;
      while (at <= before.length) at = table.boundaries.next(text, at, text.length);
      if (at < before.length + token.length) expect.fail(`${JSON.stringify(text.toString())} at ${at}`);
    }
  });

  it('leave segments whose encodings together are that of the whole', () => {
    const random = createRandom(9);
    let parts = 0;
    for (let i = 0; i < 1500; i++) {
      const bytes = Buffer.from(mixedText(random).slice(0, 40));
      if (bytes.toString('utf8').includes('\ufffd')) continue;
      const found = segments(bytes);
      parts += found.length;
      expect(found.flatMap((segment) => plain(segment))).toEqual(plain(bytes));
    }
    // Otherwise the test proves nothing.
    expect(parts).toBeGreaterThan(10_000);
  });
});
