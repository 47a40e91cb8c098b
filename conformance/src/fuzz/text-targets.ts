import { accepted, outcomeOf, same } from '../expect.js';
import {
  decodeBase64,
  decodeBrotli,
  decodeDictionary,
  decodeText,
  decodeToken,
  decodeTokenIds,
  decodeTokenNative,
  decodeTokenNativeText,
  type Encoding,
  encodeBase64,
  encodeDictionary,
  encodeToken,
  encodeTokenIds,
  getEncoding,
} from '../subject.js';
import { seedsFrom } from './seeds.js';
import { base64Of, bytesOfText, FUZZ_LIMITS, JSON_TOKENS, type Target, textOf, tokens } from './target.js';

/** Base64, TokenNative and the tagged text forms. */

const limits = FUZZ_LIMITS;
const PREFIXES = [
  '#M2M|1|',
  '#TK|C|',
  '#T1|',
  'CwGAZ29vZAM=|',
  '#M2M[v3.0]|DATA:',
  '#DI|',
  '#M2M[v2.0]|DATA:',
];

const base64: Target = {
  name: 'base64',
  tokens: tokens('=', '==', 'A', 'AA==', '+/', '-_', '\n', ' '),
  seeds: ['', 'AA==', 'AAE=', 'AAEC', '/+9/gA=='].map(bytesOfText),
  run(input) {
    const text = textOf(input);
    const outcome = outcomeOf(() => decodeBase64(text));
    if (outcome.accepted) same(encodeBase64(outcome.value), text, 'base64 written again');
    same(
      accepted(() => decodeBase64(base64Of(input)), 'base64'),
      new Uint8Array(input),
      'bytes read back',
    );
    return !outcome.accepted;
  },
  recheck: () =>
    same(
      accepted(() => decodeBase64('AAE='), 'base64'),
      Uint8Array.of(0, 1),
      'good base64',
    ),
};

const brotli: Target = {
  name: 'brotli',
  tokens: tokens('CwGAZ29vZAM=|', '#M2M[v3.0]|DATA:'),
  seeds: seedsFrom('m2m-legacy.json', 'quality5_hex'),
  run(input) {
    const outcome = outcomeOf(() => decodeBrotli(`CwGAZ29vZAM=|${base64Of(input)}`, { limits }));
    outcomeOf(() => decodeBrotli(textOf(input), { limits }));
    return !outcome.accepted;
  },
  recheck: () => same(decodeBrotli('#BR|iwGAZ29vZAM='), 'good', 'good Brotli'),
};

const zlib: Target = {
  name: 'zlib',
  tokens: [],
  // A stored block, fixed codes, dynamic codes.
  seeds: [
    '7801010500faff68656c6c6f062c0215',
    '789ccb48cdc9c95728cf2fca49010019ab0465',
    '789c1dc7b10900200c04c055b200d8',
  ].map((hex) => new Uint8Array(Buffer.from(hex, 'hex'))),
  run: (input) =>
    !outcomeOf(() => decodeText(`#M2M[v2.0]|DATA:${base64Of(input)}`, { limits, zlib: true })).accepted,
  recheck() {
    const wire = `#M2M[v2.0]|DATA:${base64Of(zlib.seeds[0] as Uint8Array)}`;
    same(
      accepted(() => decodeText(wire, { zlib: true }), 'good zlib'),
      'hello',
      'good zlib',
    );
  },
};

const dictionary: Target = {
  name: 'dictionary',
  tokens: tokens('#DI|', '"role":"user"', '"content":', '{"messages":[', '"model":"'),
  seeds: [
    ...seedsFrom('m2m-legacy.json', 'encoded_hex'),
    Uint8Array.of(0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87),
  ],
  run(input) {
    const outcome = outcomeOf(() => decodeDictionary(`#DI|${base64Of(input)}`, { limits }));
    outcomeOf(() => decodeDictionary(textOf(input), { limits }));
    if (!outcome.accepted) return true;
    const again = accepted(() => encodeDictionary(outcome.value, { limits }), 'the decoded dictionary text');
    same(
      accepted(() => decodeDictionary(again, { limits }), 'our own wire'),
      outcome.value,
      'text read back',
    );
    return false;
  },
  recheck: () =>
    same(decodeDictionary(encodeDictionary('{"messages":[]}')), '{"messages":[]}', 'good dictionary'),
};

const token: Target = {
  name: 'token',
  tokens: [
    ...JSON_TOKENS,
    ...tokens('#T1|', '"m":', '"M":"g4o"', '"r":"u"', '"c":', '"tc":', '"n":', '"fr":"s"'),
  ],
  seeds: seedsFrom('m2m-legacy.json', 'wire', 'input_json').map(withoutPrefix),
  run(input) {
    const text = textOf(input);
    const outcome = outcomeOf(() => decodeToken(`#T1|${text}`, { limits }));
    // Encoding must handle any text too.
    const encoded = outcomeOf(() => encodeToken(text, { limits }));
    if (encoded.accepted) accepted(() => decodeToken(encoded.value, { limits }), 'our own wire');
    if (outcome.accepted) JSON.parse(outcome.value);
    return !outcome.accepted;
  },
  recheck: () => same(JSON.parse(decodeToken(encodeToken('{"a":1}'))), { a: 1 }, 'good T1'),
};

function withoutPrefix(seed: Uint8Array): Uint8Array {
  const text = textOf(seed);
  return bytesOfText(text.startsWith('#T1|') ? text.slice('#T1|'.length) : text);
}

/** Any text, identified by its prefix. */
const tagged: Target = {
  name: 'text',
  tokens: [...JSON_TOKENS, ...tokens(...PREFIXES, '=', 'AAAA')],
  seeds: [...seedsFrom('m2m-legacy.json', 'wire', 'wire_C', 'input'), ...tokens(...PREFIXES)],
  run(input) {
    const text = textOf(input);
    return !outcomeOf(() => decodeText(text, { limits, zlib: true })).accepted;
  },
  recheck: () => same(decodeText('plain'), 'plain', 'plain text'),
};

const tokenNative: Target = {
  name: 'token-native',
  tokens: [],
  seeds: seedsFrom('m2m-legacy.json', 'varint_hex', 'hex').concat(
    [
      [0x88, 0x0e],
      [0xb2, 0x85, 0x06],
      [0xa8, 0xd8, 0x05, 0x80, 0x01],
    ].map((bytes) => Uint8Array.from(bytes)),
  ),
  run(input) {
    outcomeOf(() => decodeTokenNative(input, { limits }));
    outcomeOf(() => decodeTokenNativeText(input, { limits }));
    const ids = outcomeOf(() => decodeTokenIds(input));
    if (!ids.accepted) return true;
    same(encodeTokenIds(ids.value), new Uint8Array(input), 'varints written again');
    return checkTokens(vocabulary(), ids.value);
  },
  recheck: () => same(vocabulary().decode(vocabulary().encode('good day')), 'good day', 'good tokens'),
};

/** As a whole, measured only, and bit by bit: all ways of decoding must agree. */
function checkTokens(encoding: Encoding, ids: Uint32Array): boolean {
  const options = { maxBytes: limits.maxMessageSize };
  const bytes = outcomeOf(() => encoding.decodeBytes(ids, options));
  const length = outcomeOf(() => encoding.byteLength(ids, options));
  same(length.accepted && length.value, bytes.accepted && bytes.value.length, 'measured length');
  const text = outcomeOf(() => encoding.decode(ids, options));
  const parts = outcomeOf(() => {
    const decoder = encoding.createDecoder(options);
    let joined = '';
    for (let at = 0; at < ids.length; at += 3) joined += decoder.push(ids.subarray(at, at + 3));
    decoder.end();
    return joined;
  });
  same(parts.accepted && parts.value, text.accepted && text.value, 'text of the parts');
  if (text.accepted) same(encoding.decode(encoding.encode(text.value)), text.value, 'text encoded again');
  return !text.accepted;
}

function vocabulary(): Encoding {
  const encoding = getEncoding('CL100K_BASE');
  if (encoding === undefined) throw new Error('CL100K_BASE is not loaded');
  return encoding;
}

export const TEXT_TARGETS: readonly Target[] = [base64, brotli, zlib, dictionary, token, tagged, tokenNative];
