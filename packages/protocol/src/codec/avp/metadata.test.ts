import { create, createFileRegistry, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from '@bufbuild/protobuf/wkt';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { concatBytes } from '../../base/bytes.js';
import { fromHex, toHex } from '../../base/testing/bytes.js';
import { errorCode } from '../../testing/error-code.js';
import {
  AVP_MODES,
  decodeMetadata,
  encodeMetadata,
  MAX_METADATA_SIZE,
  type MetadataFields,
  PAYLOAD_TYPES,
} from './metadata.js';
import { DTYPES } from './tensor.js';

const NONE: MetadataFields = {
  metadata: {
    sessionId: '',
    sourceAgentId: '',
    targetAgentId: '',
    modelId: '',
    hiddenDim: 0,
    numLayers: 0,
    mode: 'latent',
    avpMapId: '',
    extra: new Map(),
    unknownFields: new Uint8Array(0),
  },
  payloadType: 'hidden_state',
  dtype: 'float32',
  shape: [],
  compression: '',
  checksum: undefined,
};

const uint32 = fc.oneof(fc.constant(0), fc.nat(300), fc.integer({ min: 0, max: 0xffffffff }));
const text = fc.oneof(
  { weight: 9, arbitrary: fc.string({ unit: 'grapheme', maxLength: 40 }) },
  // Lengths of two bytes.
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', minLength: 120, maxLength: 300 }) },
);
const anyFields: fc.Arbitrary<MetadataFields> = fc.record({
  metadata: fc.record({
    sessionId: text,
    sourceAgentId: text,
    targetAgentId: text,
    modelId: text,
    hiddenDim: uint32,
    numLayers: uint32,
    mode: fc.constantFrom(...(Object.keys(AVP_MODES) as (keyof typeof AVP_MODES)[])),
    avpMapId: text,
    extra: fc.array(fc.tuple(text, text), { maxLength: 5 }).map((pairs) => new Map(pairs)),
    unknownFields: fc.constantFrom('', '6001', 'a20603616263', '9303085e22017a9403').map(fromHex),
  }),
  payloadType: fc.constantFrom(...(Object.keys(PAYLOAD_TYPES) as (keyof typeof PAYLOAD_TYPES)[])),
  dtype: fc.constantFrom(...(Object.keys(DTYPES) as (keyof typeof DTYPES)[])),
  shape: fc.array(uint32, { maxLength: 6 }),
  compression: fc.constantFrom('', 'zstd'),
  checksum: fc.option(uint32, { nil: undefined }),
});

/** The document's table of fields, as a schema for a full Protocol Buffers runtime. */
function schema() {
  const scalars: [string, number, Type][] = [
    ['session_id', 1, Type.STRING],
    ['source_agent_id', 2, Type.STRING],
    ['target_agent_id', 3, Type.STRING],
    ['model_id', 4, Type.STRING],
    ['hidden_dim', 5, Type.UINT32],
    ['num_layers', 6, Type.UINT32],
    ['payload_type', 7, Type.INT32],
    ['dtype', 8, Type.INT32],
    ['mode', 10, Type.INT32],
    ['compression', 11, Type.STRING],
    ['avp_map_id', 13, Type.STRING],
  ];
  const field = (name: string, number: number, type: Type, label = Label.OPTIONAL) => ({
    name,
    number,
    type,
    label,
  });
  const file = create(FileDescriptorProtoSchema, {
    name: 'avp.proto',
    package: 'avp',
    syntax: 'proto3',
    messageType: [
      {
        name: 'Metadata',
        field: [
          ...scalars.map(([name, number, type]) => field(name, number, type)),
          field('tensor_shape', 9, Type.UINT32, Label.REPEATED),
          { ...field('extra', 14, Type.MESSAGE, Label.REPEATED), typeName: '.avp.Metadata.ExtraEntry' },
          { ...field('payload_checksum', 15, Type.UINT32), proto3Optional: true, oneofIndex: 0 },
        ],
        oneofDecl: [{ name: '_payload_checksum' }],
        nestedType: [
          {
            name: 'ExtraEntry',
            field: [field('key', 1, Type.STRING), field('value', 2, Type.STRING)],
            options: { mapEntry: true },
          },
        ],
      },
    ],
  });
  const message = createFileRegistry(create(FileDescriptorSetSchema, { file: [file] })).getMessage(
    'avp.Metadata',
  );
  if (message === undefined) throw new Error('the schema has no message');
  return message;
}

const Metadata = schema();

function asSchemaMessage({ metadata, ...fields }: MetadataFields) {
  return create(Metadata, {
    sessionId: metadata.sessionId,
    sourceAgentId: metadata.sourceAgentId,
    targetAgentId: metadata.targetAgentId,
    modelId: metadata.modelId,
    hiddenDim: metadata.hiddenDim,
    numLayers: metadata.numLayers,
    payloadType: PAYLOAD_TYPES[fields.payloadType],
    dtype: DTYPES[fields.dtype].code,
    tensorShape: [...fields.shape],
    mode: AVP_MODES[metadata.mode],
    compression: fields.compression,
    avpMapId: metadata.avpMapId,
    extra: Object.fromEntries(metadata.extra),
    ...(fields.checksum !== undefined && { payloadChecksum: fields.checksum }),
  });
}

describe('metadata', () => {
  it('round-trip', () => {
    fc.assert(
      fc.property(anyFields, (fields) => {
        expect(decodeMetadata(encodeMetadata(fields))).toEqual(fields);
      }),
    );
  });

  it('are read and written as by a full Protocol Buffers runtime', () => {
    fc.assert(
      fc.property(anyFields, (fields) => {
        // That runtime uses plain objects for maps, which put keys that look like numbers first.
        const extra = new Map([...fields.metadata.extra].filter(([key]) => !/^\d|^__proto__$/.test(key)));
        const known = {
          ...fields,
          metadata: { ...fields.metadata, extra, unknownFields: new Uint8Array(0) },
        };
        const theirs = toBinary(Metadata, asSchemaMessage(known));
        const ours = encodeMetadata(known);
        expect(ours.length).toBe(theirs.length);
        expect(decodeMetadata(theirs)).toEqual(known);
        expect(fromBinary(Metadata, ours)).toEqual(asSchemaMessage(known));
        if (extra.size < 2) expect(toHex(ours)).toBe(toHex(theirs));
      }),
    );
  });

  it('write map entries in the order of their keys, for any order of insertion', () => {
    const pairs: [string, string][] = [
      ['b', '1'],
      ['\u{1f600}', '2'],
      ['', '3'],
      ['\uff5e', '4'],
    ];
    const encode = (extra: [string, string][]) =>
      toHex(encodeMetadata({ ...NONE, metadata: { ...NONE.metadata, extra: new Map(extra) } }));
    expect(encode(pairs)).toBe(encode(pairs.toReversed()));
    expect([...decodeMetadata(fromHex(encode(pairs))).metadata.extra.keys()]).toEqual([
      '',
      'b',
      '\uff5e',
      '\u{1f600}',
    ]);
  });

  it('keep keys that a plain object would lose', () => {
    const extra = new Map([
      ['__proto__', 'a'],
      ['constructor', 'b'],
    ]);
    const read = decodeMetadata(encodeMetadata({ ...NONE, metadata: { ...NONE.metadata, extra } }));
    expect(read.metadata.extra).toEqual(extra);
  });

  it('keep a byte-order mark', () => {
    const metadata = { ...NONE.metadata, modelId: '\ufeffm', sessionId: `\ufeff${'x'.repeat(40)}` };
    expect(decodeMetadata(encodeMetadata({ ...NONE, metadata })).metadata).toEqual(metadata);
  });

  it('pass on unknown fields, in order and unchanged', () => {
    const unknown = ['9303085e220178940300', '6001', 'aa0600', 'f8ffffff0f01'];
    const bytes = fromHex(`0a0161${unknown[1]}2804${unknown[2]}${unknown[3]}`);
    const fields = decodeMetadata(bytes);
    expect(toHex(fields.metadata.unknownFields)).toBe(`${unknown[1]}${unknown[2]}${unknown[3]}`);
    expect(toHex(encodeMetadata(fields))).toBe(`0a01612804${unknown[1]}${unknown[2]}${unknown[3]}`);
  });

  it('treat a known field with another wire type as unknown', () => {
    const { metadata } = decodeMetadata(fromHex('08072a0161'));
    expect(metadata).toMatchObject({ sessionId: '', hiddenDim: 0, unknownFields: fromHex('08072a0161') });
  });

  it('do not allow known fields among the unknown ones', () => {
    const withUnknown = (hex: string) => ({
      ...NONE,
      metadata: { ...NONE.metadata, unknownFields: fromHex(hex) },
    });
    expect(errorCode(() => encodeMetadata(withUnknown('2804')))).toBe('invalid_argument');
    expect(errorCode(() => encodeMetadata(withUnknown('60012804')))).toBe('invalid_argument');
    expect(errorCode(() => encodeMetadata(withUnknown('0a')))).toBe('bad_message');
    expect(errorCode(() => encodeMetadata(withUnknown('6001')))).toBe('none');
  });

  it('are refused if they cannot be sent', () => {
    const refused: [Partial<MetadataFields['metadata']>, string][] = [
      [{ hiddenDim: -1 }, 'invalid_argument'],
      [{ hiddenDim: 2 ** 32 }, 'invalid_argument'],
      [{ numLayers: 1.5 }, 'invalid_argument'],
      [{ mode: 'JSON' as 'json' }, 'invalid_argument'],
      [{ sessionId: 5 as unknown as string }, 'invalid_argument'],
      [{ extra: new Map([['a', 5 as unknown as string]]) }, 'invalid_argument'],
      [{ sessionId: '\ud800' }, 'lone_surrogate'],
      [{ extra: new Map([['\udc00', '']]) }, 'lone_surrogate'],
      [{ extra: new Map([['', '\udc00']]) }, 'lone_surrogate'],
    ];
    for (const [changes, code] of refused) {
      expect(errorCode(() => encodeMetadata({ ...NONE, metadata: { ...NONE.metadata, ...changes } }))).toBe(
        code,
      );
    }
    expect(errorCode(() => encodeMetadata({ ...NONE, checksum: -1 }))).toBe('invalid_argument');
    expect(errorCode(() => encodeMetadata({ ...NONE, payloadType: 'x' as 'kv_cache' }))).toBe(
      'invalid_argument',
    );
  });

  it('are limited in both directions', () => {
    const named = (length: number) => ({
      ...NONE,
      metadata: { ...NONE.metadata, modelId: 'x'.repeat(length) },
    });
    const most = encodeMetadata(named(MAX_METADATA_SIZE - 4)).slice();
    expect(most).toHaveLength(MAX_METADATA_SIZE);
    expect(decodeMetadata(most).metadata.modelId).toHaveLength(MAX_METADATA_SIZE - 4);
    expect(errorCode(() => encodeMetadata(named(MAX_METADATA_SIZE - 3)))).toBe('metadata_too_large');
    expect(errorCode(() => decodeMetadata(concatBytes([most, fromHex('60')])))).toBe('metadata_too_large');
  });

  it('are refused if malformed', () => {
    const refused = {
      'a cut tag': '80',
      'a tag of more than 32 bits': 'ffffffff7f01',
      'a cut varint': '2880',
      'an endless varint': `28${'80'.repeat(10)}01`,
      'an endless unknown varint': `60${'80'.repeat(10)}01`,
      'a length beyond the end': '0a05616263',
      'a length of more than 32 bits': '0a848080801061626364',
      'such a length of an unknown field': '62848080801061626364',
      'such a length in a map entry': '720a0a848080801061626364',
      'such a length of five bytes and more': '0a848080808001',
      'a negative length': '0affffffffffffffffff01',
      'a packed dimension that is cut': '4a0180',
      'a group that ends elsewhere': '93039b03',
      'a group without an end': '9303',
      'an end without a group': '9403',
      'groups too deep': `${'9303'.repeat(200)}${'9403'.repeat(200)}`,
      'a wire type that does not exist': '0e',
      'a field without a number': '0001',
      'a map entry that is cut': '72020a05',
      'an unknown dtype': '4004',
      'a negative dtype': '40ffffffffffffffffff01',
      'an unknown payload type': '3802',
      'an unknown mode': '5002',
    };
    for (const [name, hex] of Object.entries(refused)) {
      expect([name, errorCode(() => decodeMetadata(fromHex(hex)))]).toEqual([name, 'bad_message']);
    }
    expect(errorCode(() => decodeMetadata(fromHex('0a02c080')))).toBe('bad_utf8');
    expect(errorCode(() => decodeMetadata(fromHex('0a03eda080')))).toBe('bad_utf8');
    expect(errorCode(() => decodeMetadata(fromHex(`4a41${'01'.repeat(65)}`)))).toBe('bad_tensor');
    expect(errorCode(() => decodeMetadata(fromHex(`4a40${'01'.repeat(64)}`)))).toBe('none');
  });

  it('decode arbitrary bytes to fields or throw a ProtocolError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        const code = errorCode(() => decodeMetadata(bytes));
        expect(['none', 'bad_message', 'bad_utf8', 'bad_tensor']).toContain(code);
      }),
      { numRuns: 2000 },
    );
  });
});
