import { accepted, fail, holds, outcomeOf, refused, same } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import { sameStream } from './m2m-layout.js';
import {
  decodeBase64,
  decodeBrotli,
  decodeDictionary,
  decodeText,
  decodeToken,
  decodeTokenIds,
  decodeTokenNative,
  detectAlgorithm,
  encodeBase64,
  encodeBrotli,
  encodeDictionary,
  encodeToken,
  encodeTokenIds,
  loadCodecs,
} from './subject.js';

/**
 * The older text forms. Brotli, varints and prefix detection count; the reference's T1, dictionary and
 * automatic selection use tables of their own, which differ from the compression document.
 */
export const m2mLegacy: Family = {
  file: 'm2m-legacy.json',
  head: ['_meta'],
  sections: [
    { name: 'brotli_v3', check: checkBrotli },
    { name: 'brotli_v3_decompress', check: checkBrotliDecode },
    { name: 'detect', check: checkDetection },
    { name: 'tk_varint', check: checkVarints },
    { name: 'tk_varint_decode', check: checkVarintDecode },
    { name: /^t1.*_decompress$/, informative: true, check: seeTokenDecode },
    { name: /^t1/, informative: true, check: seeToken },
    { name: 'dictionary', informative: true, check: seeDictionary },
    { name: 'auto_select', informative: true, check: seeSelection },
  ],
  prepare: () => loadCodecs(['BROTLI', 'M2M']),
};

/** The algorithm of each prefix (protocol page, section 1); other text has none. */
const PREFIXES: Readonly<Record<string, string>> = {
  '#M2M|1|': 'M2M',
  '#TK|': 'TOKEN_NATIVE',
  '#T1|': 'TOKEN',
  '#BR|': 'BROTLI',
  '#M2M[v3.0]|DATA:': 'BROTLI',
  '#DI|': 'DICTIONARY',
  '#M2M[v2.0]|DATA:': 'ZLIB',
};
const BROTLI_PREFIX = '#M2M[v3.0]|DATA:';
const OWN_BROTLI_PREFIX = '#BR|';

function checkBrotli(given: Fields): void {
  const input = given.text('input');
  const wire = given.text('wire');
  same(Buffer.byteLength(input), given.number('original_bytes'), 'original_bytes');
  same(
    accepted(() => decodeBrotli(wire), 'wire'),
    input,
    'text of the wire',
  );
  same(
    accepted(() => decodeText(wire), 'wire'),
    input,
    'text of the wire by its prefix',
  );

  const encoded = accepted(() => encodeBrotli(input), 'the text');
  holds(encoded.startsWith(BROTLI_PREFIX), `our wire begins with ${BROTLI_PREFIX}`);
  sameStream(decodeBase64(encoded.slice(BROTLI_PREFIX.length)), given.hex('quality5_hex'), input);
  same(
    accepted(() => decodeBrotli(encoded), 'our wire'),
    input,
    'text of our wire',
  );
  const short = accepted(() => encodeBrotli(input, { tag: 'BR' }), 'the text');
  same(short, OWN_BROTLI_PREFIX + encoded.slice(BROTLI_PREFIX.length), 'the form with the short prefix');
  same(
    accepted(() => decodeBrotli(short), 'the short form'),
    input,
    'text of the short form',
  );
}

function checkBrotliDecode(given: Fields): void {
  const wire = given.text('wire');
  const result = given.object('result');
  const outcome = outcomeOf(() => decodeBrotli(wire));
  if (result.flag('ok')) {
    holds(outcome.accepted, 'the wire was refused');
    const text = ['text', 'json', 'content', 'output'].find((name) => result.has(name));
    if (text !== undefined) same(outcome.value, result.text(text), 'text of the wire');
    return;
  }
  // The short prefix is the document's; the reference does not read it.
  if (!wire.startsWith(OWN_BROTLI_PREFIX)) holds(!outcome.accepted, 'the wire was accepted');
}

function checkDetection(given: Fields): void {
  const input = given.text('input');
  const prefix = Object.keys(PREFIXES).find((known) => input.startsWith(known));
  const expected = prefix === undefined ? 'NONE' : (PREFIXES[prefix] as string);
  same(detectAlgorithm(input), expected, 'algorithm');
  const detected = given.maybe('text', 'detected');
  // For prefixes that both know they agree; the reference knows fewer, and matches on part of a prefix.
  if (prefix !== undefined && detected !== undefined) same(detected, expected, 'algorithm of the reference');
}

function checkVarints(given: Fields): void {
  const ids = given.numbers('token_ids');
  const bytes = accepted(() => encodeTokenIds(Uint32Array.from(ids)), 'the IDs');
  same(Buffer.from(bytes).toString('hex'), given.text('varint_hex'), 'varint_hex');
  const wire = given.names.filter((name) => name.startsWith('wire_'));
  holds(wire.length > 0, 'the case has a wire');
  for (const name of wire) {
    const text = given.text(name);
    same(`#TK|${name.slice('wire_'.length)}|${encodeBase64(bytes)}`, text, name);
    // Reading a frame's IDs does not check that its vocabulary contains them.
    same([...accepted(() => decodeTokenNative(text), name).ids], ids, `IDs of ${name}`);
  }
  same([...accepted(() => decodeTokenIds(given.hex('varint_hex')), 'the varints')], ids, 'IDs read back');
}

function checkVarintDecode(given: Fields): void {
  const bytes = given.hex('hex');
  const result = given.object('result');
  const outcome = outcomeOf(() => [...decodeTokenIds(bytes)]);
  if (!result.flag('ok')) return refused(() => decodeTokenIds(bytes), 'the varints');
  const ids = result.numbers('tokens');
  if (outcome.accepted) return same(outcome.value, ids, 'IDs');
  const shortest = ids.reduce((sum, id) => sum + varintLength(id), 0);
  // The reference accepts superfluous bytes, and drops bits beyond the 32nd.
  if (shortest === bytes.length) fail(`varints in their shortest form were refused: ${outcome.message}`);
}

function varintLength(id: number): number {
  return Math.max(1, Math.ceil((32 - Math.clz32(id)) / 7));
}

// --- informative: whether our results happen to agree

function seeToken(given: Fields): void {
  const input = given.text('input_json');
  const outcome = outcomeOf(() => encodeToken(input));
  const ours = outcomeOf(() => decodeToken(given.text('wire')));
  same(outcome.accepted && outcome.value, given.text('wire'), 'wire');
  holds(ours.accepted, 'the wire was refused');
}

function seeTokenDecode(given: Fields): void {
  const outcome = outcomeOf(() => decodeToken(given.text('wire')));
  const result = given.object('result');
  same(outcome.accepted, result.flag('ok'), 'acceptance');
  if (outcome.accepted) same(JSON.parse(outcome.value), JSON.parse(result.text('json')), 'JSON');
}

function seeDictionary(given: Fields): void {
  const outcome = outcomeOf(() => encodeDictionary(given.text('input')));
  if (outcome.accepted) same(decodeDictionary(outcome.value), given.text('input'), 'text read back');
  if (given.has('wire')) outcomeOf(() => decodeDictionary(given.text('wire')));
  same(outcome.accepted && outcome.value, given.maybe('text', 'wire') ?? false, 'wire');
}

/** Ours selects the smallest result among the negotiated algorithms, so there is nothing to compare. */
function seeSelection(given: Fields): void {
  const algorithm = given.text('selected');
  fail(`the reference would send this as ${algorithm} by its own rules`);
}
