import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type EncodingName, Prefix } from '../base/constants.js';
import { FrameKind, frameKind, prefixOf } from '../base/frame-kind.js';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec, type CodedBody, plainBody, type ReceivedBody } from '../codec/body.js';
import { errorCode } from '../testing/error-code.js';
import { decodePlainFrame, decodeTextForm, encodePlainFrame, encodeTextForm } from './plain.js';

const CL100K: EncodingName = 'CL100K_BASE';
const coded = (codec: BodyCodec, bytes: Uint8Array): CodedBody => ({ ...plainBody(bytes), codec });
const plain = (text: string) => plainBody(encodeUtf8(text));
const ascii = (text: string) => Buffer.from(text, 'latin1');

/** Codecs whose bodies may be any bytes; T1 bodies are text. */
const BINARY_CODECS = [BodyCodec.TOKEN_NATIVE, BodyCodec.M2M, BodyCodec.BROTLI, BodyCodec.DICTIONARY];
const body = fc.oneof(
  fc.tuple(fc.constantFrom(...BINARY_CODECS), fc.uint8Array()).map(([codec, bytes]) => coded(codec, bytes)),
  fc.string({ unit: 'binary' }).map((text) => coded(BodyCodec.TOKEN, encodeUtf8(text))),
  fc
    .string({ unit: 'binary' })
    .filter((text) => prefixOf(text) === undefined)
    .map(plain),
);
const encoding = fc.constantFrom<EncodingName>('CL100K_BASE', 'O200K_BASE', 'LLAMA_BPE');

describe('bodies of every codec', () => {
  const expectSame = ({ codec, bytes, ...rest }: ReceivedBody, sent: CodedBody) => {
    expect([codec, [...bytes]]).toEqual([sent.codec, [...sent.bytes]]);
    // A bare frame cannot carry any of these.
    expect(rest).toMatchObject({ originalLength: undefined, secret: false, metadata: undefined });
  };

  it('come back from their text form, also from its UTF-8 in a binary frame', () => {
    fc.assert(
      fc.property(body, encoding, (sent, name) => {
        const text = encodeTextForm(sent, name);
        expectSame(decodeTextForm(text, name), sent);
        // In a binary frame, the tag of M2M is followed by raw bytes.
        if (sent.codec === BodyCodec.PLAIN || sent.codec === BodyCodec.M2M) return;
        expectSame(decodePlainFrame(encodeUtf8(text), name), sent);
      }),
      { numRuns: 300 },
    );
  });

  it('come back from their WebSocket message', () => {
    fc.assert(
      fc.property(body, encoding, (sent, name) => {
        const frame = encodePlainFrame(sent, name);
        const isBinary = sent.codec === BodyCodec.TOKEN_NATIVE || sent.codec === BodyCodec.M2M;
        expect(typeof frame === 'string').toBe(!isBinary);
        expectSame(
          typeof frame === 'string' ? decodeTextForm(frame, name) : decodePlainFrame(frame, name),
          sent,
        );
      }),
      { numRuns: 300 },
    );
  });

  it('have the form that the documents describe', () => {
    const bytes = Uint8Array.of(0x81, 0x01);
    const forms = [1, 2, 3, 7].map((codec) => encodeTextForm(coded(codec as BodyCodec, bytes), 'O200K_BASE'));
    expect(forms).toEqual(['#TK|O|gQE=', '#M2M|1|gQE=', '#M2M[v3.0]|DATA:gQE=', '#DI|gQE=']);
    expect(encodeTextForm(coded(BodyCodec.TOKEN, ascii('{"M":"4o"}')), null)).toBe('#T1|{"M":"4o"}');
    expect(encodePlainFrame(coded(BodyCodec.TOKEN_NATIVE, bytes), 'LLAMA_BPE')).toEqual(
      Uint8Array.of(2, 0x81, 1),
    );
    expect(encodePlainFrame(coded(BodyCodec.M2M, bytes), null)).toEqual(
      Uint8Array.of(...ascii('#M2M|1|'), 0x81, 1),
    );
    expect(encodePlainFrame(plain('hello'), null)).toBe('hello');
    expect(encodePlainFrame(plain(''), null)).toBe('');
  });

  it('are also read with the other tag of Brotli', () => {
    expect(decodeTextForm('#BR|gQE=', null)).toMatchObject({ codec: BodyCodec.BROTLI });
  });

  it('of AVP are sent unchanged, and have no text form', () => {
    const frame = ascii('AV rest');
    expect(encodePlainFrame(coded(BodyCodec.AVP, frame), null)).toBe(frame);
    expect(frameKind(frame)).toBe(FrameKind.AVP);
    expect(decodePlainFrame(frame, null)).toMatchObject({ codec: BodyCodec.AVP, bytes: frame });
    expect(errorCode(() => encodeTextForm(coded(BodyCodec.AVP, frame), null))).toBe('unsupported');
  });
});

describe('passthrough', () => {
  it('never carries content that would be read as another codec', () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.values(Prefix)), fc.string(), (prefix, rest) => {
        for (const encode of [encodeTextForm, encodePlainFrame])
          expect(errorCode(() => encode(plain(prefix + rest), CL100K))).toBe('unrepresentable');
      }),
    );
  });

  it.each(['#', '#hash', ' #TK|', '\ufeff#TK|C|', '#M2M|2|', '\0', '\u{1f600}'])(
    'carries %j as it is',
    (text) => {
      expect(encodeTextForm(plain(text), null)).toBe(text);
      expect(Buffer.from(decodeTextForm(text, null).bytes).toString()).toBe(text);
    },
  );

  it('never carries bytes that are not text', () => {
    for (const bytes of [[0xff], [0xed, 0xa0, 0x80], [0xc0, 0x80]])
      expect(errorCode(() => encodePlainFrame(plainBody(Uint8Array.from(bytes)), null))).toBe(
        'unrepresentable',
      );
  });

  it('refuses text without a UTF-8 form', () => {
    expect(errorCode(() => decodeTextForm('a\ud800', null))).toBe('lone_surrogate');
  });
});

describe('TokenNative', () => {
  const tokens = coded(BodyCodec.TOKEN_NATIVE, Uint8Array.of(1));

  it('cannot be written without an encoding', () => {
    expect(errorCode(() => encodePlainFrame(tokens, null))).toBe('unsupported');
    expect(errorCode(() => encodeTextForm(tokens, null))).toBe('unsupported');
  });

  it.each([
    ['none', null],
    ['another', 'O200K_BASE' as const],
  ])('is refused if %s was negotiated', (_which, negotiated) => {
    const read = (frame: Uint8Array | string) =>
      errorCode(() =>
        typeof frame === 'string' ? decodeTextForm(frame, negotiated) : decodePlainFrame(frame, negotiated),
      );
    expect(read(encodePlainFrame(tokens, CL100K))).toBe('bad_frame');
    expect(read(encodeTextForm(tokens, CL100K))).toBe('bad_frame');
  });

  it.each(['#TK|', '#TK|C', '#TK|X|AQ==', '#TK|AQ=='])('%s names no encoding', (text) => {
    expect(errorCode(() => decodeTextForm(text, CL100K))).toBe('bad_frame');
  });
});

describe('invalid data frames', () => {
  it.each([
    ['an empty frame', [], 'bad_frame'],
    ['a link frame', [0x10, 0, 0], 'bad_frame'],
    ['a control envelope', [0x80], 'bad_frame'],
    ['an unknown first byte', [0x42], 'bad_frame'],
    ['an unknown tag', [...ascii('#XX|')], 'unknown_prefix'],
    ['a tag that is no UTF-8', [0x23, 0xff], 'bad_utf8'],
    ['zlib', [...ascii('#M2M[v2.0]|DATA:AA==')], 'unsupported'],
    ['base64 that is none', [...ascii('#DI|A')], 'bad_base64'],
  ])('%s is refused', (_what, bytes, code) => {
    expect(errorCode(() => decodePlainFrame(Uint8Array.from(bytes), CL100K))).toBe(code);
  });

  it.each(['#BR|*', '#M2M|1|A', '#TK|C|A===', '#DI|AA', '#M2M[v3.0]|DATA:AA='])(
    '%s is not base64',
    (text) => {
      expect(errorCode(() => decodeTextForm(text, CL100K))).toBe('bad_base64');
    },
  );
});
