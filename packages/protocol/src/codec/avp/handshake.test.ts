import { describe, expect, it } from 'vitest';
import { isProtocolError } from '../../base/errors.js';
import { canonicalJson } from './canonical-json.js';
import {
  type AvpHello,
  decodeAvpHello,
  decodeAvpTextMessage,
  encodeAvpHello,
  encodeAvpTextMessage,
} from './hello.js';
import {
  canonicalVocabulary,
  type ModelIdentity,
  modelHash,
  modelIdentity,
  tokenizerHash,
} from './identity.js';
import { parseLosslessJson } from './lossless-json.js';
import { resolveCompatibility } from './resolve.js';
import { readVectors, sha256 } from './testing/vectors.js';

/** avp-handshake of the golden vectors: resolver, hashes, identities, and the two JSON messages. */

type VocabularyRange = [prefix: string, from: number, to: number];

interface IdentityWords {
  model_family: string;
  model_id: string;
  model_hash: string;
  hidden_dim: number;
  num_layers: number;
  num_kv_heads: number | null;
  head_dim: number;
  tokenizer_hash?: string;
}

interface HandshakeVectors {
  resolver_cases: {
    name: string;
    local: IdentityWords;
    remote: IdentityWords;
    available_maps: string[];
    source_vocab_ranges?: VocabularyRange[];
    target_vocab_ranges?: VocabularyRange[];
    result: { mode: string; avp_map_id: string; resolution_path: string };
  }[];
  model_hash_cases: { name: string; input_json?: string; canonical: string; model_hash: string }[];
  tokenizer_hash_cases: {
    name: string;
    vocab?: [string, number][] | null;
    vocab_ranges?: VocabularyRange[];
    vocab_rule?: string;
    canonical?: string | null;
    canonical_length?: number;
    tokenizer_hash: string;
  }[];
  identity_cases: {
    name: string;
    config_json: string;
    vocab?: [string, number][];
    identity: IdentityWords;
  }[];
  hello_cases: {
    name: string;
    to_dict?: Record<string, unknown>;
    from_dict?: Record<string, unknown>;
    json_as_sent?: string;
    exception?: string;
  }[];
  json_message_cases: { name: string; to_json: string }[];
}

const vectors = readVectors<HandshakeVectors>('avp-handshake.json');

const named = <T extends { name: string }>(cases: T[]) => cases.map((given) => [given.name, given] as const);

const identityOf = (words: IdentityWords): ModelIdentity => ({
  modelFamily: words.model_family,
  modelId: words.model_id,
  modelHash: words.model_hash,
  hiddenDim: words.hidden_dim,
  numLayers: words.num_layers,
  numKvHeads: words.num_kv_heads ?? 0,
  headDim: words.head_dim,
  tokenizerHash: words.tokenizer_hash ?? '',
});

function* tokensOf(ranges: VocabularyRange[]): Generator<[string, number]> {
  let id = 0;
  for (const [prefix, from, to] of ranges) for (let n = from; n < to; n++) yield [`${prefix}${n}`, id++];
}

describe('resolver', () => {
  it.each(named(vectors.resolver_cases))('%s', (_name, given) => {
    const tokens = (ranges: VocabularyRange[] | undefined) =>
      ranges && Array.from(tokensOf(ranges), ([token]) => token);
    const result = resolveCompatibility(identityOf(given.local), identityOf(given.remote), {
      maps: new Set(given.available_maps),
      localTokens: tokens(given.source_vocab_ranges),
      remoteTokens: tokens(given.target_vocab_ranges),
    });
    expect({
      mode: result.mode.toUpperCase(),
      avp_map_id: result.mapId,
      resolution_path: result.path,
    }).toEqual(given.result);
  });
});

describe('model hash', () => {
  it.each(named(vectors.model_hash_cases))('%s', (_name, given) => {
    expect(sha256(new TextEncoder().encode(given.canonical))).toBe(given.model_hash);
    // Skip configs that exist only as Python objects: they have no text.
    if (given.input_json === undefined) return;
    expect(canonicalJson(parseLosslessJson(given.input_json))).toBe(given.canonical);
    expect(modelHash(given.input_json)).toBe(given.model_hash);
  });
});

describe('tokenizer hash', () => {
  it.each(named(vectors.tokenizer_hash_cases))('%s', (_name, given) => {
    let vocabulary = given.vocab ?? undefined;
    if (given.vocab_ranges) vocabulary = [...tokensOf(given.vocab_ranges)];
    if (given.vocab_rule) {
      // The rule does not say where to stop; the length of the canonical form does.
      expect(given.vocab_rule).toBe('token = single character U+0000+i, id = i');
      vocabulary = [];
      while (canonicalVocabulary(vocabulary).length < (given.canonical_length ?? 0)) {
        vocabulary.push([String.fromCharCode(vocabulary.length), vocabulary.length]);
      }
    }
    if (vocabulary === undefined) {
      expect(given.tokenizer_hash).toBe('');
      return;
    }
    const canonical = canonicalVocabulary(vocabulary);
    if (given.canonical != null) expect(canonical).toBe(given.canonical);
    if (given.canonical_length !== undefined) expect(canonical).toHaveLength(given.canonical_length);
    expect(tokenizerHash(vocabulary)).toBe(given.tokenizer_hash);
    expect(tokenizerHash(new Map(vocabulary.toReversed()))).toBe(given.tokenizer_hash);
  });
});

describe('identity', () => {
  it.each(named(vectors.identity_cases))('%s', (_name, given) => {
    const identity = modelIdentity(given.config_json, given.vocab);
    const expected = identityOf(given.identity);
    // The reference passes on a null here; ours is a number.
    const leaks = given.identity.num_kv_heads === null;
    expect(identity).toEqual(leaks ? { ...expected, numKvHeads: identity.numKvHeads } : expected);
    expect(identity.numKvHeads).toBeTypeOf('number');
  });
});

const outcome = <T>(run: () => T): T | string => {
  try {
    return run();
  } catch (error) {
    if (isProtocolError(error)) return error.code;
    throw error;
  }
};

describe('introduction', () => {
  /** Whether every known field has its type; the reference does not check. */
  const isWellTyped = (given: Record<string, unknown>): boolean =>
    Object.entries(given).every(([name, value]) => {
      if (name === 'identity')
        return typeof value === 'object' && value !== null && isWellTyped({ ...value });
      if (/_(dim|layers|heads)$/.test(name)) return typeof value === 'number';
      return !/^(agent_id|avp_version|model_|tokenizer_)/.test(name) || typeof value === 'string';
    });

  it.each(named(vectors.hello_cases))('%s', (_name, given) => {
    if (given.json_as_sent !== undefined) {
      const hello = decodeAvpHello(given.json_as_sent);
      expect(JSON.parse(encodeAvpHello(hello))).toEqual(given.to_dict);
      expect(Object.keys(JSON.parse(encodeAvpHello(hello)))).toEqual(Object.keys(given.to_dict ?? {}));
    }
    if (given.from_dict !== undefined) {
      const hello = outcome(() => decodeAvpHello(JSON.stringify(given.from_dict)));
      if (given.exception !== undefined || !isWellTyped(given.from_dict)) {
        expect(hello).toBe('bad_message');
      } else {
        expect(JSON.parse(encodeAvpHello(hello as AvpHello))).toEqual(given.to_dict);
      }
    }
  });

  it('is refused if it is not a JSON object', () => {
    for (const text of [
      '',
      '{',
      'null',
      '[]',
      '"x"',
      '{"capabilities":[]}',
      '{"identity":{"hidden_dim":-1}}',
    ]) {
      expect(outcome(() => decodeAvpHello(text))).toMatch(/^bad_/);
    }
  });

  it('reads nothing from prototypes', () => {
    const hello = decodeAvpHello('{"__proto__":{"agent_id":"x"},"constructor":1}');
    expect(hello).toEqual({ agentId: '', avpVersion: '0.6.2', capabilities: {} });
  });
});

describe('text message', () => {
  it.each(named(vectors.json_message_cases))('%s', (_name, given) => {
    const message = decodeAvpTextMessage(given.to_json);
    expect(JSON.parse(encodeAvpTextMessage(message))).toEqual(JSON.parse(given.to_json));
    expect(decodeAvpTextMessage(encodeAvpTextMessage(message))).toEqual(message);
  });

  it('is refused if a field has the wrong type', () => {
    expect(outcome(() => decodeAvpTextMessage('{"content":1}'))).toBe('bad_message');
    expect(outcome(() => decodeAvpTextMessage('{"extra":null}'))).toBe('bad_message');
  });
});

describe('a peer that names its hash', () => {
  it('cannot use it to reach anything but maps', () => {
    const asked: string[] = [];
    const maps = { has: (id: string) => asked.push(id) > 0 };
    const local = identityOf({ ...vectors.identity_cases[0]!.identity, model_hash: 'a'.repeat(64) });
    for (const modelHash of ['../../etc/passwd', 'b/../../x', 'c\0', '', '%2e%2e', 'ü', 'a b']) {
      const remote = { ...local, modelHash, modelFamily: 'other', tokenizerHash: '' };
      expect(resolveCompatibility(local, remote, { maps }).path).toBe('json_fallback');
    }
    expect(asked).toEqual([]);
  });
});
