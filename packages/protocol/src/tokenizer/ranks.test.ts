import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { importTokens } from '../codec/vocabulary/source.js';
import { ENCODING_NAMES } from '../codec/vocabulary/testing/loaded-table.js';
import { errorCode } from '../testing/error-code.js';
import { parseByteCharacters, parsePackedRanks, parseTiktokenFile, writeTiktokenFile } from './ranks.js';
import type { TokenList } from './token-table.js';
import { VOCABULARIES } from './vocabulary.js';

const tokens = ({ bytes, offsets }: TokenList) =>
  Array.from({ length: offsets.length - 1 }, (_, i) =>
    Buffer.from(bytes.subarray(offsets[i], offsets[i + 1])).toString('latin1'),
  );

describe('rank data', () => {
  it('is read from the format of js-tiktoken', () => {
    expect(tokens(parsePackedRanks('! 0 IQ== Ig== dGhl 4pyT YWI='))).toEqual([
      '!',
      '"',
      'the',
      'â\x9c\x93',
      'ab',
    ]);
  });

  it('is read from a .tiktoken file, with or without a last newline', () => {
    for (const end of ['', '\n']) {
      const file = Buffer.from(`IQ== 0\nIg== 1\ndGhl 2${end}`);
      expect(tokens(parseTiktokenFile(file))).toEqual(['!', '"', 'the']);
    }
  });

  it('is read from the format of llama3-tokenizer-js', () => {
    expect(tokens(parseByteCharacters(['!', 'Ġthe', 'âľĵ', 'Ċ', 'Ń']))).toEqual([
      '!',
      ' the',
      'â\x9c\x93',
      '\n',
      '\xad',
    ]);
  });

  it('is refused in another format', () => {
    expect(errorCode(() => parsePackedRanks('IQ== 0\n'))).toBe('vocabulary_mismatch');
    expect(errorCode(() => parsePackedRanks('! 0 IQ==  Ig=='))).toBe('vocabulary_mismatch');
    expect(errorCode(() => parsePackedRanks('! 0 IQ==\n! 1 Ig=='))).toBe('vocabulary_mismatch');
    expect(errorCode(() => parsePackedRanks('! 0 é'))).toBe('vocabulary_mismatch');
    expect(errorCode(() => parseTiktokenFile(Buffer.from('\n\n')))).toBe('vocabulary_mismatch');
    expect(errorCode(() => parseTiktokenFile(Buffer.from(`${'QUFB'.repeat(100)} 0`)))).toBe(
      'vocabulary_mismatch',
    );
    expect(errorCode(() => parseByteCharacters(['a', '']))).toBe('vocabulary_mismatch');
    expect(errorCode(() => parseByteCharacters(['a', '中']))).toBe('vocabulary_mismatch');
    expect(errorCode(() => parseByteCharacters(['a', ' ']))).toBe('vocabulary_mismatch');
  });

  it('is written as a .tiktoken file', () => {
    const list = parsePackedRanks(`! 0 ${Array.from({ length: 1200 }, () => 'IQ== YWI= dGhl').join(' ')}`);
    const expected = tokens(list).map(
      (token, rank) => `${Buffer.from(token, 'latin1').toString('base64')} ${rank}\n`,
    );
    expect(Buffer.from(writeTiktokenFile(list)).toString()).toBe(expected.join(''));
  });

  it.each(ENCODING_NAMES)('of %s gives the file with the published hash', async (name) => {
    const file = writeTiktokenFile(await importTokens(VOCABULARIES[name]));
    expect(file.length).toBe(VOCABULARIES[name].fileSize);
    expect(createHash('sha256').update(file).digest('hex')).toBe(VOCABULARIES[name].hash);
    expect(Buffer.compare(writeTiktokenFile(parseTiktokenFile(file)), file)).toBe(0);
  });
});
