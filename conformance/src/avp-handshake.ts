import { accepted, fail, holds, refused, same } from './expect.js';
import type { Family } from './family.js';
import { Fields, isRecord } from './fields.js';
import {
  canonicalJson,
  canonicalVocabulary,
  cryptoSuite,
  decodeAvpHello,
  decodeAvpTextMessage,
  encodeAvpHello,
  encodeAvpTextMessage,
  type ModelIdentity,
  modelHash,
  modelIdentity,
  parseLosslessJson,
  resolveCompatibility,
  tokenizerHash,
} from './subject.js';

/** Who can send tensors to whom: the resolver, the hashes that it compares, identities and introductions. */
export const avpHandshake: Family = {
  file: 'avp-handshake.json',
  head: ['generator', 'rules'],
  sections: [
    { name: 'resolver_cases', check: checkResolver },
    { name: 'model_hash_cases', check: checkModelHash },
    // Objects that no JSON text describes.
    { name: 'model_hash_errors', informative: true, check: () => fail('the case gives no JSON') },
    { name: 'tokenizer_hash_cases', check: checkTokenizerHash },
    { name: 'identity_cases', check: checkIdentity },
    { name: 'hello_cases', check: checkHello },
    { name: 'json_message_cases', check: checkTextMessage },
  ],
};

type Range = readonly [prefix: string, from: number, to: number];
type Token = readonly [token: string, id: number];

const IDENTITY_WORDS = {
  model_family: 'modelFamily',
  model_id: 'modelId',
  model_hash: 'modelHash',
  hidden_dim: 'hiddenDim',
  num_layers: 'numLayers',
  num_kv_heads: 'numKvHeads',
  head_dim: 'headDim',
  tokenizer_hash: 'tokenizerHash',
} as const satisfies Readonly<Record<string, keyof ModelIdentity>>;

const NUMBERS: readonly string[] = ['hidden_dim', 'num_layers', 'num_kv_heads', 'head_dim'];

function identityOf(given: Fields): ModelIdentity {
  given.only(Object.keys(IDENTITY_WORDS));
  const entries = Object.entries(IDENTITY_WORDS).map(([word, name]) => {
    const missing = NUMBERS.includes(word) ? 0 : '';
    if (!given.has(word)) return [name, missing];
    return [name, NUMBERS.includes(word) ? given.number(word) : given.text(word)];
  });
  return Object.fromEntries(entries) as ModelIdentity;
}

function* tokensOf(ranges: readonly Range[]): Generator<Token> {
  let id = 0;
  for (const [prefix, from, to] of ranges) for (let i = from; i < to; i++) yield [`${prefix}${i}`, id++];
}

function rangesOf(given: Fields, name: string): readonly Range[] | undefined {
  return given.has(name) ? (given.list(name) as Range[]) : undefined;
}

function checkResolver(given: Fields): void {
  const texts = (name: string) => {
    const ranges = rangesOf(given, name);
    return ranges && Array.from(tokensOf(ranges), ([token]) => token);
  };
  const resolved = accepted(
    () =>
      resolveCompatibility(identityOf(given.object('local')), identityOf(given.object('remote')), {
        maps: new Set(given.texts('available_maps')),
        localTokens: texts('source_vocab_ranges'),
        remoteTokens: texts('target_vocab_ranges'),
      }),
    'resolving',
  );
  const result = given.object('result');
  result.only(['mode', 'avp_map_id', 'resolution_path', 'session_id']);
  same(resolved.mode, result.word('mode', ['LATENT', 'JSON']).toLowerCase(), 'mode');
  same(resolved.mapId, result.text('avp_map_id'), 'avp_map_id');
  same(resolved.path, result.text('resolution_path'), 'resolution_path');
}

function checkModelHash(given: Fields): void {
  const canonical = given.text('canonical');
  const hash = Buffer.from(cryptoSuite.sha256(new TextEncoder().encode(canonical))).toString('hex');
  same(hash, given.text('model_hash'), 'SHA-256 of the canonical text');
  // A config that exists only as a Python object has no JSON text to start from.
  if (!given.has('input_json'))
    return given.has('input_python') ? undefined : fail('the case gives no config');
  const input = given.text('input_json');
  same(
    accepted(() => canonicalJson(parseLosslessJson(input)), 'the config'),
    canonical,
    'canonical',
  );
  same(
    accepted(() => modelHash(input), 'the config'),
    given.text('model_hash'),
    'model_hash',
  );
}

const CHARACTER_RULE = 'token = single character U+0000+i, id = i';

function checkTokenizerHash(given: Fields): void {
  const vocabulary = vocabularyOf(given);
  const hash = given.text('tokenizer_hash');
  if (vocabulary === undefined) {
    // Without a vocabulary the hash is unknown, as in our own identity of a model without one.
    same(hash, '', 'tokenizer_hash');
    same(accepted(() => modelIdentity('{}'), 'the identity').tokenizerHash, hash, 'tokenizer_hash');
    return;
  }
  const canonical = accepted(() => canonicalVocabulary(vocabulary), 'the vocabulary');
  if (given.has('canonical')) same(canonical, given.text('canonical'), 'canonical');
  if (given.has('canonical_length'))
    same(canonical.length, given.number('canonical_length'), 'canonical_length');
  same(
    accepted(() => tokenizerHash(vocabulary), 'the vocabulary'),
    hash,
    'tokenizer_hash',
  );
  same(
    accepted(() => tokenizerHash(vocabulary.toReversed()), 'the vocabulary'),
    hash,
    'hash in another order',
  );
}

function vocabularyOf(given: Fields): readonly Token[] | undefined {
  if (given.has('vocab')) return given.list('vocab') as Token[];
  const ranges = rangesOf(given, 'vocab_ranges');
  if (ranges !== undefined) return [...tokensOf(ranges)];
  if (!given.has('vocab_rule')) return undefined;
  same(given.text('vocab_rule'), CHARACTER_RULE, 'the rule of the vocabulary');
  // The rule does not say where the tokens end; the length of the canonical form does.
  const tokens: Token[] = [];
  while (canonicalVocabulary(tokens).length < given.number('canonical_length')) {
    tokens.push([String.fromCharCode(tokens.length), tokens.length]);
  }
  return tokens;
}

function checkIdentity(given: Fields): void {
  const vocabulary = given.has('vocab') ? (given.list('vocab') as Token[]) : undefined;
  const identity = accepted(() => modelIdentity(given.text('config_json'), vocabulary), 'the config');
  const expected = given.object('identity');
  for (const name of expected.names) {
    if (!Object.hasOwn(IDENTITY_WORDS, name)) fail(`the runner does not know the identity field ${name}`);
    const value = identity[IDENTITY_WORDS[name as keyof typeof IDENTITY_WORDS]];
    // The reference passes on a null; our value is a number.
    if (expected.has(name)) same(value, expected.raw(name), name);
    else holds(Number.isInteger(value), `${name} is ${String(value)}`);
  }
  const warns = given.maybe('texts', 'warns') ?? [];
  if (warns.length > 0) same(identity.hiddenDim, 0, 'hidden_dim where the reference warns');
}

function checkHello(given: Fields): void {
  const written = (json: string) => JSON.parse(encodeAvpHello(decodeAvpHello(json))) as unknown;
  if (given.has('json_as_sent')) {
    const sent = accepted(() => written(given.text('json_as_sent')), 'json_as_sent');
    same(sent, given.raw('to_dict'), 'introduction');
    same(Object.keys(sent as object), given.object('to_dict').names, 'order of the fields');
  }
  if (!given.has('from_dict')) {
    holds(given.has('json_as_sent'), 'the case gives no introduction');
    return;
  }
  const json = JSON.stringify(given.raw('from_dict'));
  // The reference does not check types: on some inputs it fails with an incidental error.
  if (given.has('exception') || !isWellTyped(given.object('from_dict')))
    refused(() => written(json), 'the introduction');
  else
    same(
      accepted(() => written(json), 'the introduction'),
      given.raw('to_dict'),
      'introduction',
    );
}

const HELLO_TEXTS = ['agent_id', 'avp_version'];

/** Whether every known field of an introduction has the right type. */
function isWellTyped(given: Fields): boolean {
  return given.names.every((name) => {
    const value = given.raw(name);
    if (name === 'identity') return isRecord(value) && isWellTyped(new Fields(value));
    if (name === 'capabilities') return isRecord(value);
    if (NUMBERS.includes(name)) return typeof value === 'number';
    if (HELLO_TEXTS.includes(name) || Object.hasOwn(IDENTITY_WORDS, name)) return typeof value === 'string';
    return true;
  });
}

function checkTextMessage(given: Fields): void {
  const json = given.text('to_json');
  const message = accepted(() => decodeAvpTextMessage(json), 'the message');
  const written = accepted(() => encodeAvpTextMessage(message), 'the message');
  same(JSON.parse(written), JSON.parse(json), 'message');
  same(
    accepted(() => decodeAvpTextMessage(written), 'our own message'),
    message,
    'message read back',
  );
}
