import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { ENCODING_IDS, ENCODING_LETTERS, EncodingName } from '../../base/constants.js';
import { errorCode } from '../../testing/error-code.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { decodeTokenIds, encodeTokenIds } from '../../tokenizer/varints.js';
import { getEncoding, loadEncoding } from '../vocabulary/load.js';
import {
  decodeTokenNative,
  decodeTokenNativeText,
  encodeTokenNative,
  encodeTokenNativeText,
} from './token-native.js';

const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex, 'hex'));
const NAMES = Object.values(EncodingName);

describe('before a vocabulary is loaded', () => {
  it('frames can be read, but text can neither be written nor read', () => {
    expect(getEncoding('O200K_BASE')).toBeUndefined();
    expect(decodeTokenNative(Uint8Array.of(1, 5))).toEqual({
      encoding: 'O200K_BASE',
      ids: Uint32Array.of(5),
    });
    expect(errorCode(() => encodeTokenNative('text', 'O200K_BASE'))).toBe('vocabulary_not_loaded');
    expect(errorCode(() => encodeTokenNativeText('text', 'O200K_BASE'))).toBe('vocabulary_not_loaded');
    expect(errorCode(() => decodeTokenNativeText(Uint8Array.of(1, 5)))).toBe('vocabulary_not_loaded');
  });
});

describe.each(NAMES)('TokenNative in %s', (name) => {
  let encoding: Encoding;
  beforeAll(async () => {
    encoding = await loadEncoding(name);
  });

  it('begins with its byte or letter', () => {
    const ids = encoding.encode('{"role":"user"}');
    const frame = encodeTokenNative('{"role":"user"}', name);
    expect(frame[0]).toBe(ENCODING_IDS[name]);
    expect(decodeTokenIds(frame.subarray(1))).toEqual(ids);
    const wire = encodeTokenNativeText('{"role":"user"}', encoding);
    expect(wire).toBe(`#TK|${ENCODING_LETTERS[name]}|${Buffer.from(encodeTokenIds(ids)).toString('base64')}`);
  });

  it('carries every well-formed text in both forms', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const frame = encodeTokenNative(text, encoding);
        expect(decodeTokenNative(frame)).toEqual({ encoding: name, ids: encoding.encode(text) });
        expect(decodeTokenNativeText(frame)).toBe(text);
        const wire = encodeTokenNativeText(text, encoding);
        expect(decodeTokenNativeText(wire)).toBe(text);
        expect(decodeTokenNativeText(Buffer.from(wire))).toBe(text);
      }),
      { numRuns: 300 },
    );
  });

  it('carries an empty text as its byte or letter alone', () => {
    expect([...encodeTokenNative('', encoding)]).toEqual([ENCODING_IDS[name]]);
    expect(encodeTokenNativeText('', encoding)).toBe(`#TK|${ENCODING_LETTERS[name]}|`);
    expect(decodeTokenNativeText(encodeTokenNative('', encoding))).toBe('');
    expect(decodeTokenNativeText(encodeTokenNativeText('', encoding))).toBe('');
  });

  it('refuses text without a UTF-8 form', () => {
    expect(errorCode(() => encodeTokenNative('\ud800', encoding))).toBe('lone_surrogate');
    expect(errorCode(() => encodeTokenNativeText('\ud800', encoding))).toBe('lone_surrogate');
  });

  it('refuses IDs that are not text in the vocabulary', () => {
    const frame = (ids: number[]) =>
      Uint8Array.of(ENCODING_IDS[name], ...encodeTokenIds(Uint32Array.from(ids)));
    expect(errorCode(() => decodeTokenNativeText(frame([encoding.size])))).toBe('bad_token');
    expect(decodeTokenNative(frame([encoding.size])).ids).toEqual(Uint32Array.of(encoding.size));
    const lead = Array.from({ length: 256 }, (_, id) => id).find(
      (id) => encoding.decodeBytes([id])[0] === 0xc3,
    );
    expect(errorCode(() => decodeTokenNativeText(frame([lead as number])))).toBe('bad_utf8');
    const special = name === 'LLAMA_BPE' ? 128_000 : name === 'O200K_BASE' ? 199_999 : 100_257;
    expect(errorCode(() => decodeTokenNativeText(frame([special])))).toBe('bad_token');
    expect(decodeTokenNativeText(frame([special]), { allowSpecial: true })).toMatch(/^<\|.+\|>$/);
  });

  it('applies the message limit, at n and n + 1', () => {
    const text = 'word '.repeat(20);
    const at = (maxMessageSize: number) => ({ limits: { maxMessageSize } });
    const frame = encodeTokenNative(text, encoding, at(text.length));
    expect(errorCode(() => encodeTokenNative(text, encoding, at(text.length - 1)))).toBe('message_too_large');
    // The text form is longer than the text here.
    const wire = encodeTokenNativeText('\0'.repeat(9), encoding);
    expect(encodeTokenNativeText('\0'.repeat(9), encoding, at(wire.length))).toBe(wire);
    expect(errorCode(() => encodeTokenNativeText('\0'.repeat(9), encoding, at(wire.length - 1)))).toBe(
      'message_too_large',
    );

    expect(decodeTokenNative(frame, at(frame.length)).ids.length).toBe(encoding.count(text));
    expect(errorCode(() => decodeTokenNative(frame, at(frame.length - 1)))).toBe('message_too_large');
    expect(errorCode(() => decodeTokenNative(wire, at(wire.length - 1)))).toBe('message_too_large');
    expect(errorCode(() => decodeTokenNative(Buffer.from(wire), at(wire.length - 1)))).toBe(
      'message_too_large',
    );
    expect(decodeTokenNativeText(frame, at(text.length))).toBe(text);
    expect(errorCode(() => decodeTokenNativeText(frame, at(text.length - 1)))).toBe('decompressed_too_large');
  });
});

describe('malformed frames', () => {
  it.each<[string, Uint8Array | string, string]>([
    ['an empty frame', new Uint8Array(0), 'bad_frame'],
    ['an unknown tokenizer byte', Uint8Array.of(3, 1), 'bad_frame'],
    ['another kind of frame', Uint8Array.of(0x81, 1), 'bad_frame'],
    ['a cut varint', Uint8Array.of(0, 0x80), 'truncated'],
    ['an overlong varint', Uint8Array.of(0, 0x81, 0x00), 'bad_varint'],
    ['an empty text', '', 'unknown_prefix'],
    ['another prefix', '#T1|{}', 'unknown_prefix'],
    ['a shorter prefix', '#TK', 'unknown_prefix'],
    ['no letter', '#TK|', 'bad_frame'],
    ['an unknown letter', '#TK|X|AA==', 'bad_frame'],
    ['a small letter', '#TK|c|AA==', 'bad_frame'],
    ['no separator', '#TK|C', 'bad_frame'],
    ['another separator', '#TK|C:AA==', 'bad_frame'],
    ['text that is not base64', '#TK|C|?', 'bad_base64'],
    ['base64 without padding', '#TK|C|AA', 'bad_base64'],
    ['a cut varint in base64', '#TK|C|gA==', 'truncated'],
    ['a tag that is not UTF-8', bytes('23544b7c437cff'), 'bad_utf8'],
    ['the tag alone', bytes('23'), 'unknown_prefix'],
  ])('%s', (_, frame, code) => {
    expect(errorCode(() => decodeTokenNative(frame))).toBe(code);
    expect(errorCode(() => decodeTokenNativeText(frame))).toBe(code);
  });

  it('arbitrary bytes give a frame or a ProtocolError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), fc.integer({ min: 0, max: 2 }), (body, first) => {
        for (const frame of [body, Uint8Array.of(first, ...body)]) {
          errorCode(() => decodeTokenNative(frame));
          errorCode(() => decodeTokenNativeText(frame));
        }
      }),
      { numRuns: 2000 },
    );
  });
});
