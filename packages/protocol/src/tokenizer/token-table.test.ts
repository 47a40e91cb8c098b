import { beforeAll, describe, expect, it } from 'vitest';
import { isFull } from '../../../../scripts/extent.js';
import { importTokens } from '../codec/vocabulary/source.js';
import {
  ENCODING_NAMES,
  keySource,
  loadTable,
  tokenBytes,
} from '../codec/vocabulary/testing/loaded-table.js';
import { Merger } from './merge.js';
import { createRandom, mixedText } from './testing/texts.js';
import { NO_TOKEN, type TokenTable } from './token-table.js';
import { VOCABULARIES } from './vocabulary.js';

describe.each(ENCODING_NAMES)('the token table of %s', (name) => {
  const { ordinary, mergeable } = VOCABULARIES[name];
  let table: TokenTable;
  beforeAll(async () => {
    table = await loadTable(name);
  });

  it('finds every token by its bytes, and no other bytes', () => {
    expect(table.size).toBe(ordinary);
    const known = new Set<string>();
    let missed = 0;
    for (let id = 0; id < ordinary; id++) {
      const [start, end] = [table.offsets[id] as number, table.offsets[id + 1] as number];
      known.add(Buffer.from(table.bytes.subarray(start, end)).toString('latin1'));
      if (table.find(table, start, end, ordinary) !== id) missed++;
    }
    expect(missed).toBe(0);
    expect(known.size).toBe(ordinary);

    // Tokens with one byte changed, added or removed.
    const random = createRandom(3);
    const wrong: Buffer[] = [];
    for (let i = 0; i < 20_000; i++) {
      const bytes = Buffer.from([
        ...tokenBytes(table, Math.floor(random() * ordinary)),
        Math.floor(random() * 256),
      ]);
      bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      const length = bytes.length - Math.floor(random() * 3);
      if (length < 1) continue;
      const found = table.find(keySource(bytes), 0, length, ordinary);
      if ((found !== NO_TOKEN) !== known.has(bytes.toString('latin1', 0, length))) wrong.push(bytes);
    }
    expect(wrong).toEqual([]);
  });

  it('ignores IDs from the limit on', () => {
    for (const id of [300, 5000, ordinary - 1]) {
      const [start, end] = [table.offsets[id] as number, table.offsets[id + 1] as number];
      expect(table.find(table, start, end, id + 1)).toBe(id);
      expect(table.find(table, start, end, id)).toBe(NO_TOKEN);
    }
  });

  it('ignores the bytes after a token', () => {
    const { bytes, view } = keySource(Buffer.from('the\xff\xff\xff\xff\xff\xff', 'latin1'));
    const alone = keySource(Buffer.from('the'));
    expect(table.find({ bytes, view }, 0, 3, ordinary)).toBe(table.find(alone, 0, 3, ordinary));
    const zeros = keySource(Buffer.from('the\0\0'));
    expect(table.find(zeros, 0, 4, ordinary)).toBe(NO_TOKEN);
  });

  it('holds only tokens below `mergeable` that merging yields', () => {
    const merger = new Merger(table, ordinary);
    const unmergeable: number[] = [];
    for (let id = 0; id < ordinary; id++) {
      const end = table.offsets[id + 1] as number;
      if (merger.merge(table, table.offsets[id] as number, end) > 1) unmergeable.push(id);
    }
    expect(unmergeable.filter((id) => id < mergeable)).toEqual([]);
    expect(unmergeable.length).toBe(name === 'LLAMA_BPE' ? 588 : 0);
  });
});

describe('a shared table', () => {
  it('grows from cl100k_base to Llama 3 without changing what cl100k_base finds', async () => {
    const table = await loadTable('CL100K_BASE');
    const limit = VOCABULARIES.CL100K_BASE.ordinary;
    table.extend(await importTokens(VOCABULARIES.LLAMA_BPE));
    expect(table.size).toBe(VOCABULARIES.LLAMA_BPE.ordinary);
    for (let id = 0; id < table.size; id++) {
      const [start, end] = [table.offsets[id] as number, table.offsets[id + 1] as number];
      if (table.find(table, start, end, limit) !== (id < limit ? id : NO_TOKEN)) expect.fail(`token ${id}`);
    }
  });

  it('merges for cl100k_base as if Llama 3 were not loaded', async () => {
    const limit = VOCABULARIES.CL100K_BASE.ordinary;
    const own = await loadTable('CL100K_BASE');
    const shared = await loadTable('LLAMA_BPE');
    const alone = new Merger(own, limit);
    const together = new Merger(shared, limit);
    const random = createRandom(31);
    for (let i = 0; i < (isFull ? 5_000 : 1_000); i++) {
      const source = keySource(Buffer.from(mixedText(random)));
      const count = alone.merge(source, 0, source.length);
      expect(together.merge(source, 0, source.length)).toBe(count);
      expect(together.ids.subarray(0, count)).toEqual(alone.ids.subarray(0, count));
      expect([...together.ids.subarray(0, count)].every((id) => id < limit)).toBe(true);
    }
  });
});
