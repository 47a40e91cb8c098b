import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { decodeBase64, encodeBase64 } from '../base64.js';
import { ByteReader, varintLength, writeVarint } from '../bytes.js';
import { Prefix } from '../constants.js';
import * as node from '../platform/node.js';
import { errorCode } from '../testing/error-code.js';
import { loadWebPlatform } from '../testing/web-platform.js';
import { decodeUtf8, encodeUtf8 } from '../text.js';
import { compressBrotli, decodeBrotli, encodeBrotli } from './brotli.js';
import { detectAlgorithm } from './tagged.js';

/**
 * What the reference implementation wrote and read. Its T1, dictionary and selection sections follow
 * tables of its own, which differ from the document, and are left out here on purpose.
 */

interface LegacyVectors {
  readonly brotli_v3: readonly { input: string; wire: string; quality5_hex: string }[];
  readonly brotli_v3_decompress: readonly { wire: string; result: { ok: boolean } }[];
  readonly detect: readonly { input: string; detected: string | null }[];
  readonly tk_varint: readonly { token_ids: number[]; varint_hex: string; wire_C: string }[];
  readonly tk_varint_decode: readonly { hex: string; result: { ok: boolean; tokens?: number[] } }[];
}

const vectors = JSON.parse(
  readFileSync(new URL('../../../../conformance/vectors/m2m-legacy.json', import.meta.url), 'utf8'),
) as LegacyVectors;

describe('Brotli', () => {
  beforeAll(loadWebPlatform);

  it.each(vectors.brotli_v3)(
    'reads on both platforms what the reference wrote: $wire',
    async ({ input, wire }) => {
      expect(decodeBrotli(wire)).toBe(input);
      const body = decodeBase64(wire.slice(Prefix.BROTLI_V3.length));
      for (const platform of [node.platform, await loadWebPlatform()]) {
        expect(decodeUtf8(platform.brotliDecompress(body, 1024 * 1024))).toBe(input);
      }
    },
  );

  it.each(vectors.brotli_v3)(
    'writes the very bytes of quality 5: $quality5_hex',
    ({ input, quality5_hex }) => {
      expect(Buffer.from(compressBrotli(encodeUtf8(input), 5)).toString('hex')).toBe(quality5_hex);
      expect(decodeBrotli(encodeBrotli(input))).toBe(input);
    },
  );

  it.each(vectors.brotli_v3_decompress)('agrees with the reference about $wire', ({ wire, result }) => {
    expect(errorCode(() => decodeBrotli(wire)) === 'none').toBe(result.ok);
  });
});

describe('detection', () => {
  // The prefixes of section 3.10, to which section 5.9.1 adds those of the older algorithms.
  const current = [Prefix.M2M, Prefix.TOKEN_NATIVE, Prefix.BROTLI_V3];
  const added = [Prefix.TOKEN, Prefix.BROTLI, Prefix.DICTIONARY, Prefix.ZLIB_V2];

  it.each(vectors.detect)('agrees with the reference about $input', ({ input, detected }) => {
    if (current.some((prefix) => input.startsWith(prefix))) {
      expect(detectAlgorithm(input)).toBe(detected);
    } else if (added.some((prefix) => input.startsWith(prefix))) {
      expect(detected).toBeNull();
      expect(detectAlgorithm(input)).not.toBe('NONE');
    } else {
      // The reference needs less than the whole prefix; the documents want all of it.
      expect(detectAlgorithm(input)).toBe('NONE');
    }
  });
});

describe('varints', () => {
  it.each(vectors.tk_varint)('writes and reads $varint_hex', ({ token_ids, varint_hex, wire_C }) => {
    const bytes = new Uint8Array(token_ids.reduce((sum, id) => sum + varintLength(id), 0));
    let at = 0;
    for (const id of token_ids) at = writeVarint(bytes, at, id);
    expect(Buffer.from(bytes).toString('hex')).toBe(varint_hex);
    expect(`#TK|C|${encodeBase64(bytes)}`).toBe(wire_C);
    const reader = new ByteReader(decodeBase64(wire_C.slice('#TK|C|'.length)));
    expect(token_ids.map(() => reader.varint('token ID'))).toEqual(token_ids);
    expect(reader.remaining).toBe(0);
  });

  it.each(vectors.tk_varint_decode)('refuses in $hex what is not in its shortest form', ({ hex, result }) => {
    const reader = new ByteReader(Buffer.from(hex, 'hex'));
    const tokens: number[] = [];
    const code = errorCode(() => {
      while (reader.remaining > 0) tokens.push(reader.varint('token ID', 0xffffffff));
    });
    if (!result.ok) expect(code).not.toBe('none');
    else if (code === 'none') expect(tokens).toEqual(result.tokens);
    else expect(result.tokens?.reduce((sum, id) => sum + varintLength(id), 0)).toBeLessThan(hex.length / 2);
  });
});
