import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { platform } from '#platform';
import { concatBytes, equalBytes } from '../../base/bytes.js';
import { errorCode } from '../../testing/error-code.js';
import { AVP_COMPRESSION_LEVELS, type AvpCompression, type AvpInput, decodeAvp, encodeAvp } from './frame.js';
import { type DecodeAvpOptions, decodeAvpHead, encodeAvpHead } from './head.js';
import { readAvpHeader, writeAvpHeader } from './header.js';
import {
  AVP_MODES,
  type AvpMode,
  encodeMetadata,
  type MetadataFields,
  type PayloadType,
} from './metadata.js';
import { DTYPES, type Dtype, elementSize } from './tensor.js';

const hidden = (changes: Partial<AvpInput> = {}): AvpInput => ({
  data: Float32Array.of(1, -2, 0.5, 4),
  shape: [2, 2],
  dtype: 'float32',
  payloadType: 'hidden_state',
  metadata: { modelId: 'm', hiddenDim: 2 },
  ...changes,
});

const dims = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 3 });
const text = fc.string({ unit: 'grapheme', maxLength: 20 });
const anyInput: fc.Arbitrary<AvpInput & { data: Uint8Array }> = fc
  .record({
    shape: dims,
    dtype: fc.constantFrom(...(Object.keys(DTYPES) as Dtype[])),
    payloadType: fc.constantFrom<PayloadType>('hidden_state', 'kv_cache'),
    metadata: fc.record(
      {
        sessionId: text,
        modelId: text,
        hiddenDim: fc.nat(),
        mode: fc.constantFrom(...(Object.keys(AVP_MODES) as AvpMode[])),
        avpMapId: fc.constantFrom('', 'vocab:65dcf16ea3dfa490', 'vocab_overlap:150', 'aaa_bbb'),
        extra: fc.dictionary(text, text, { maxKeys: 3 }),
      },
      { requiredKeys: [] },
    ),
  })
  .chain((input) => {
    const length = input.shape.reduce((a, b) => a * b, elementSize(input.dtype));
    return fc
      .uint8Array({ minLength: length, maxLength: length, max: 3 })
      .map((data) => ({ ...input, data }));
  });

// Load zstd before the tables below are created.
await platform.loadZstd();

describe('a frame', () => {
  it('round-trips with and without compression and checksum', () => {
    fc.assert(
      fc.property(
        anyInput,
        fc.constantFrom(...(Object.keys(AVP_COMPRESSION_LEVELS) as AvpCompression[])),
        fc.boolean(),
        (input, compression, checksum) => {
          const frame = encodeAvp(input, { compression, checksum });
          const message = decodeAvp(frame);
          expect(message).toMatchObject({
            shape: input.shape,
            dtype: input.dtype,
            payloadType: input.payloadType,
            checksum: checksum ? platform.crc32(input.data) : undefined,
          });
          expect(equalBytes(message.data, input.data)).toBe(true);
          const { extra, ...metadata } = input.metadata ?? {};
          expect(message.metadata).toMatchObject(metadata);
          expect(message.metadata.extra).toEqual(new Map(Object.entries(extra ?? {})));
          expect(encodeAvp(message, { compression, checksum })).toEqual(frame);
          expect(errorCode(() => decodeAvp(frame.subarray(0, -1)))).toBe('truncated');
        },
      ),
    );
  });

  it('returns its payload as a view', () => {
    const frame = encodeAvp(hidden());
    const message = decodeAvp(frame);
    expect(message.data.buffer).toBe(frame.buffer);
    expect([...message.toTyped()]).toEqual([1, -2, 0.5, 4]);
    // With metadata of a length that puts the body at a multiple of four.
    const lengths = [0, 1, 2, 3].map((n) => {
      const aligned = decodeAvp(encodeAvp(hidden({ metadata: { modelId: 'x'.repeat(n + 1) } })));
      return aligned.toTyped().buffer === aligned.data.buffer;
    });
    expect(lengths.filter(Boolean)).toHaveLength(1);
  });

  it('does not return a Buffer for a Buffer', () => {
    const frame = encodeAvp(hidden({ metadata: { unknownFields: Uint8Array.of(0x60, 0x01) } }));
    const message = decodeAvp(Buffer.from(frame));
    expect(message.data.constructor).toBe(Uint8Array);
    expect(message.metadata.unknownFields.constructor).toBe(Uint8Array);
    expect(message.metadata.unknownFields).toEqual(Uint8Array.of(0x60, 0x01));
  });

  it('accepts data in any view of the right length', () => {
    const values = Float32Array.of(1, -2, 0.5, 4);
    const padded = new Float32Array(6);
    padded.set(values, 1);
    const views = [
      values,
      new Uint8Array(values.buffer),
      new DataView(padded.buffer, 4, 16),
      padded.subarray(1, 5),
      Buffer.from(values.buffer),
      new BigInt64Array(values.buffer),
    ];
    for (const data of views) expect(encodeAvp(hidden({ data }))).toEqual(encodeAvp(hidden()));
  });

  it('is refused if data, shape and dtype do not match', () => {
    const refused: [Partial<AvpInput>, string][] = [
      [{ shape: [5] }, 'bad_tensor'],
      [{ shape: [4, 0] }, 'bad_tensor'],
      [{ shape: [2 ** 31, 2 ** 31, 2] }, 'bad_tensor'],
      [{ shape: [-4] }, 'bad_tensor'],
      [{ dtype: 'float16' }, 'bad_tensor'],
      [{ dtype: 'float16', shape: [] }, 'bad_tensor'],
      [{ shape: undefined, data: new Uint8Array(15) }, 'bad_tensor'],
      [{ dtype: 'float64' as Dtype }, 'invalid_argument'],
      [{ payloadType: 'embedding' as PayloadType }, 'invalid_argument'],
      [{ data: [1, 2, 3, 4] as unknown as Float32Array }, 'invalid_argument'],
      [{ data: new ArrayBuffer(16) as unknown as Float32Array }, 'invalid_argument'],
    ];
    for (const [changes, code] of refused) {
      expect([changes, errorCode(() => encodeAvp(hidden(changes)))]).toEqual([changes, code]);
    }
    expect(errorCode(() => encodeAvp(hidden(), { compression: 'best' as AvpCompression }))).toBe(
      'invalid_argument',
    );
    expect(errorCode(() => encodeAvp(hidden({ shape: undefined })))).toBe('none');
    const words = { shape: [], data: new Uint8Array(15), metadata: { mode: 'json', hiddenDim: 4 } } as const;
    expect(decodeAvp(encodeAvp(hidden(words))).data).toHaveLength(15);
  });

  it('is compressed only if that makes it smaller', () => {
    const noise = Uint8Array.from({ length: 64 }, (_, i) => (i * 197 + 13) & 0xff);
    for (const data of [noise, new Uint8Array(0), new Uint8Array(16)]) {
      const input = hidden({ data, shape: [data.length], dtype: 'int8' });
      expect(encodeAvp(input, { compression: 'max' })).toEqual(encodeAvp(input));
    }
    for (let length = 0; length < 64; length++) {
      const input = hidden({ data: new Uint8Array(length), shape: [length], dtype: 'int8' });
      const raw = encodeAvp(input);
      const frame = encodeAvp(input, { compression: 'balanced' });
      if (readAvpHeader(frame).compressed) expect(frame.length).toBeLessThan(raw.length);
      else expect(frame).toEqual(raw);
    }
    const zeros = hidden({ data: new Uint8Array(64), shape: [64], dtype: 'int8' });
    const frame = encodeAvp(zeros, { compression: 'fast' });
    expect(frame.length).toBeLessThan(encodeAvp(zeros).length);
    expect(readAvpHeader(frame).compressed).toBe(true);
  });
});

/** A frame whose parts are each valid but may contradict each other. */
function forge(
  fields: Partial<Omit<MetadataFields, 'metadata'>> & { metadata?: Partial<MetadataFields['metadata']> },
  flags: number,
  body: Uint8Array,
): Uint8Array {
  const good = decodeAvp(encodeAvp(hidden()));
  const encoded = encodeMetadata({
    payloadType: 'hidden_state',
    dtype: 'float32',
    shape: [],
    compression: '',
    checksum: undefined,
    ...fields,
    metadata: { ...good.metadata, ...fields.metadata },
  });
  const header = new Uint8Array(12);
  writeAvpHeader(header, flags, encoded.length + body.length, encoded.length);
  return concatBytes([header, encoded, body]);
}

describe('strict and lenient', () => {
  const body = new Uint8Array(16);
  const good = forge({}, 0, body);
  // The error code in strict mode, and whether lenient mode accepts the frame.
  const cases: Record<string, [frame: Uint8Array, code: string, lenient: boolean]> = {
    'bytes after the frame': [concatBytes([good, body]), 'trailing_bytes', true],
    'a reserved flag': [forge({}, 0x08, body), 'bad_header', true],
    'a KV-cache flag on a hidden state': [forge({}, 0x04, body), 'bad_header', true],
    'a KV-cache without its flag': [forge({ payloadType: 'kv_cache' }, 0, body), 'bad_header', true],
    'a map flag without a map': [forge({}, 0x02, body), 'bad_header', true],
    'a map without its flag': [forge({ metadata: { avpMapId: 'a_b' } }, 0, body), 'bad_header', true],
    'compression named but not used': [forge({ compression: 'zstd' }, 0, body), 'bad_compression', true],
    'a shape that does not fit': [forge({ shape: [5] }, 0, body), 'bad_tensor', true],
    'half an element': [forge({}, 0, body.subarray(1)), 'bad_tensor', true],
    'a wrong checksum': [forge({ checksum: 1 }, 0, body), 'bad_checksum', false],
    'a body that is not zstd': [forge({}, 0x01, body), 'bad_compression', false],
    'a frame that is cut': [good.subarray(0, -1), 'truncated', false],
    'a header that is cut': [good.subarray(0, 11), 'truncated', false],
    'no bytes': [new Uint8Array(0), 'truncated', false],
  };

  it.each(Object.entries(cases))('%s', (_name, [frame, code, lenient]) => {
    expect(errorCode(() => decodeAvp(frame))).toBe(code);
    expect(errorCode(() => decodeAvp(frame, { lenient: true }))).toBe(lenient ? 'none' : code);
  });

  it('another compression', () => {
    const packed = platform.zstdCompress(body, 3);
    const frame = forge({ compression: 'gzip' }, 0x01, packed);
    expect(errorCode(() => decodeAvp(frame))).toBe('bad_compression');
    expect(decodeAvp(frame, { lenient: true }).data).toEqual(body);
    expect(decodeAvp(forge({}, 0x01, packed)).data).toEqual(body);
    expect(errorCode(() => decodeAvp(forge({ shape: [5] }, 0x01, packed)))).toBe('bad_tensor');
  });

  it('returns the metadata of a frame that it accepts leniently', () => {
    const message = decodeAvp(forge({ shape: [5] }, 0xf8, body), { lenient: true });
    expect(message).toMatchObject({ shape: [5], header: { flags: 0xf8 } });
    expect([...message.toTyped()]).toEqual([0, 0, 0, 0]);
  });

  it('never reads beyond the lengths of the header', () => {
    const short = good.slice();
    new DataView(short.buffer).setUint32(4, 4, true);
    for (const options of [{}, { lenient: true }]) {
      expect(errorCode(() => decodeAvp(short, options))).toBe('bad_header');
    }
  });
});

describe('limits', () => {
  const frame = encodeAvp(hidden());
  const zeros = hidden({ data: new Uint8Array(1024), shape: [1024], dtype: 'int8' });
  const packed = encodeAvp(zeros, { compression: 'balanced' });
  const decode = (bytes: Uint8Array, options: DecodeAvpOptions) => errorCode(() => decodeAvp(bytes, options));

  it('accept n and refuse n + 1', () => {
    expect(decode(frame, { maxSize: 16 })).toBe('none');
    expect(decode(frame, { maxSize: 15 })).toBe('message_too_large');
    expect(decode(packed, { maxDecompressedSize: 1024 })).toBe('none');
    expect(decode(packed, { maxDecompressedSize: 1023 })).toBe('decompressed_too_large');
    expect(decode(frame, { maxDecompressedSize: 1 })).toBe('none');
  });

  it('are 1 GiB for a body and 16 MiB for its expanded size', () => {
    const claim = (payloadLength: number, metadataLength = 0) => {
      const header = new Uint8Array(12);
      writeAvpHeader(header, 0, payloadLength, metadataLength);
      return errorCode(() => decodeAvp(header));
    };
    expect(claim(2 ** 30)).toBe('truncated');
    expect(claim(2 ** 30 + 1)).toBe('message_too_large');
    expect(claim(2 ** 20, 2 ** 16)).toBe('truncated');
    expect(claim(2 ** 20, 2 ** 16 + 1)).toBe('metadata_too_large');
    const large = (length: number) => {
      const data = new Uint8Array(length);
      return errorCode(() =>
        decodeAvp(encodeAvp(hidden({ data, shape: [length], dtype: 'int8' }), { compression: 'fast' })),
      );
    };
    expect(large(2 ** 24)).toBe('none');
    expect(large(2 ** 24 + 1)).toBe('decompressed_too_large');
  });

  it('refuse a frame of more than 4 GiB before creating it', () => {
    const size = (payloadSize: number) =>
      errorCode(() => encodeAvpHead({ dtype: 'int8', payloadType: 'hidden_state' }, { payloadSize }));
    // Two bytes of metadata name the dtype.
    expect(size(2 ** 32 - 3)).toBe('none');
    expect(size(2 ** 32 - 2)).toBe('message_too_large');
  });
});

describe('a head', () => {
  it('is read before the body, and already refused if the body cannot match it', () => {
    const frame = encodeAvp(hidden());
    const { headLength, bodyLength, ...head } = decodeAvpHead(frame.subarray(0, frame.length - 16));
    expect([headLength + bodyLength, bodyLength]).toEqual([frame.length, 16]);
    expect(head).toMatchObject({ shape: [2, 2], dtype: 'float32', payloadType: 'hidden_state' });
    expect(errorCode(() => decodeAvpHead(frame.subarray(0, headLength - 1)))).toBe('truncated');
    expect(
      errorCode(() => decodeAvpHead(forge({ shape: [5] }, 0, new Uint8Array(16)).subarray(0, -16))),
    ).toBe('bad_tensor');
  });

  it('and a body together are a frame', () => {
    const input = hidden();
    const data = new Uint8Array(input.data.buffer);
    const head = encodeAvpHead(input, { payloadSize: 16, checksum: platform.crc32(data) });
    expect(concatBytes([head, data])).toEqual(encodeAvp(input));
  });
});

describe('damage', () => {
  it('throws only ProtocolErrors', () => {
    const frames = [
      encodeAvp(hidden({ metadata: { modelId: 'm', extra: { a: 'b' }, avpMapId: 'vocab:1' } })),
      encodeAvp(hidden({ data: new Uint8Array(200), shape: [50] }), { compression: 'balanced' }),
      encodeAvp(hidden({ payloadType: 'kv_cache' }), { checksum: false }),
    ];
    const changes = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 1, max: 255 })), { maxLength: 4 });
    const anyFrame = fc.constantFrom(...frames);
    fc.assert(
      fc.property(anyFrame, changes, fc.nat(), fc.boolean(), (frame, edits, cut, lenient) => {
        const damaged = frame.slice(0, cut % 3 === 0 ? cut % frame.length : frame.length);
        for (const [at, xor] of edits) {
          if (damaged.length > 0) damaged[at % damaged.length]! ^= xor;
        }
        errorCode(() => {
          const message = decodeAvp(damaged, { lenient });
          errorCode(() => message.toTyped());
        });
      }),
      { numRuns: 3000 },
    );
  });
});
