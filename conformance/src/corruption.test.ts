import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { FAMILIES } from './families.js';
import { type Case, casesOf, type Family, runCase } from './family.js';
import { isRecord } from './fields.js';

/**
 * Proves that the runner can fail: in every section, every field that holds an expectation is changed, and
 * the case must fail then. Only this test notices a check that is skipped by mistake.
 */

/** Fields whose corruption must be noticed in at least one case of their section. */
const NOTICED: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'm2m-frame.json': {
    encode: ['verdict', 'constructor', 'input_json', 'encode_hex', 'encode_string', 'encoded_fields'],
    decode: [
      'verdict',
      'frame_hex',
      'frame_string',
      'frame_bytes',
      'absent_if_accepted',
      'decompressed_bytes',
      'reference_decode',
    ],
    constructed: ['input_json', 'encode_hex', 'encode_string', 'encoded_fields', 'schema_override'],
  },
  'm2m-secure.json': {
    positive: [
      ...[
        'verdict',
        'mode',
        'key_hex',
        'constructor',
        'input_json',
        'nonce_hex',
        'frame_hex',
        'frame_string',
      ],
      ...[
        'aad_hex',
        'ciphertext_hex',
        'tag_hex',
        'hmac_input_hex',
        'hmac_tag_hex',
        'header_len',
        'frame_bytes',
      ],
      'reference_decode_secure',
    ],
    key_length: ['verdict', 'mode', 'key_hex', 'input_json', 'frame_hex', 'frame_string'],
    negative: ['verdict', 'policy'],
  },
  'm2m-crypto.json': {
    hkdf: ['ikm_hex', 'info_hex', 'length', 'okm_hex', 'expected'],
    hmac: ['key_hex', 'data_hex', 'tag_hex', 'sign_hex'],
    aead: ['key_hex', 'nonce_hex', 'aad_hex', 'plaintext_hex', 'output_hex', 'tag_hex', 'wrong_aad_fails'],
    hierarchy: ['master_hex', 'org_id', 'org', 'shared', 'agents', 'sessions'],
    id_validation: ['agent', 'org'],
    key_from_hex: ['ok'],
    keyring: ['default_key_hex', 'context', 'session_id', 'info', 'key_hex'],
    x25519: ['secret_a_hex', 'secret_b_hex', 'public_a_hex', 'public_b_hex', 'shared_hex', 'session_keys'],
    x25519_low_order: ['peer_public_hex'],
  },
  'm2m-legacy.json': {
    brotli_v3: ['input', 'wire', 'quality5_hex', 'original_bytes'],
    brotli_v3_decompress: ['result'],
    detect: ['detected'],
    tk_varint: ['token_ids', 'varint_hex', 'wire_C'],
    tk_varint_decode: ['hex', 'result'],
  },
  'm2m-messages.json': {
    messages: ['json', 'roundtrip_json'],
    parse: ['input', 'result'],
    sessions: ['hello', 'response', 'data', 'server_decompressed', 'close'],
  },
  'avp-frame.json': {
    cases: ['check', 'metadata', 'options', 'payload', 'frame', 'frame_sorted_map', 'decoded'],
  },
  'avp-invalid.json': { cases: ['verdict', 'kv_verdict', 'frame', 'reference'] },
  'avp-kv-cache.json': {
    cases: [
      ...['num_layers', 'num_kv_heads', 'seq_len', 'head_dim', 'dtype', 'dtype_byte', 'tensor_recipe'],
      ...['header_hex', 'tensor_bytes', 'body', 'layers', 'estimate_kv_cache_size'],
      ...['k_l0_values', 'v_l0_values', 'values'],
    ],
    header_cases: ['num_layers', 'num_kv_heads', 'head_dim', 'seq_len', 'hex', 'decoded_dtype'],
    invalid_for_deserialize: ['body', 'reference'],
  },
  'avp-handshake.json': {
    resolver_cases: [
      ...['local', 'remote', 'available_maps', 'result'],
      ...['source_vocab_ranges', 'target_vocab_ranges'],
    ],
    model_hash_cases: ['input_json', 'canonical', 'model_hash'],
    tokenizer_hash_cases: [
      'vocab',
      'vocab_ranges',
      'vocab_rule',
      'canonical',
      'canonical_length',
      'tokenizer_hash',
    ],
    identity_cases: ['config_json', 'vocab', 'identity'],
    hello_cases: ['to_dict', 'from_dict', 'json_as_sent'],
    json_message_cases: ['to_json'],
  },
  'avp-sizes.json': {
    rows: ['dim', 'dtype', 'seed_table', 'current_format', 'current_format_recipes_with_the_same_total'],
  },
  'session-snapshot.json': {
    restored: ['snapshot_hex', 'summary', 'resume', 'writes_hex', 'receives_hex', 'events'],
    refused: ['snapshot_hex', 'code'],
  },
  'tokenizer.json': { cases: ['text', 'CL100K_BASE', 'O200K_BASE', 'LLAMA_BPE'] },
};

/** Words whose opposite is a different expectation. */
const OPPOSITES: Readonly<Record<string, string>> = {
  accept: 'reject',
  reject: 'accept',
  'byte-exact': 'must-error',
  'must-error': 'byte-exact',
  hmac: 'aead',
  aead: 'hmac',
  ok: 'refused',
};

/** Every value that differs from `value` in one leaf, of the same type. */
function* changed(value: unknown): Generator<unknown> {
  if (Array.isArray(value)) {
    for (const [i, entry] of value.entries()) for (const other of changed(entry)) yield value.with(i, other);
    yield value.slice(1);
  } else if (isRecord(value)) {
    for (const [name, entry] of Object.entries(value)) {
      for (const other of changed(entry)) yield { ...value, [name]: other };
    }
    if (Object.keys(value).length === 0) yield { other: 1 };
  } else if (typeof value === 'string') {
    if (OPPOSITES[value] !== undefined) yield OPPOSITES[value];
    yield /^(?:[0-9a-f]{2})+$/.test(value) ? flipped(value) : `${value}x`;
    const digit = /\d/.exec(value);
    if (digit !== null) yield value.replace(digit[0], digit[0] === '1' ? '2' : '1');
  } else if (typeof value === 'number') yield* [value + 1, value - 1];
  else if (typeof value === 'boolean') yield !value;
  else yield 'something';
}

function flipped(hex: string): string {
  const middle = Math.floor(hex.length / 2);
  return hex.slice(0, middle) + (hex[middle] === '0' ? '1' : '0') + hex.slice(middle + 1);
}

const MAX_CHANGES = 25;

/** Whether some change of the field makes a case fail that passed before. */
function isNoticed(family: Family, section: string, entry: Record<string, unknown>, name: string): boolean {
  let changes = 0;
  for (const other of changed(entry[name])) {
    if (changes++ >= MAX_CHANGES) return false;
    const [one] = casesOf(family, { [section]: [{ ...entry, [name]: other }] });
    if (runCase(one as Case).status === 'failed') return true;
  }
  return false;
}

describe.each(FAMILIES.map((family) => [family.file, family] as const))('%s', (file, family) => {
  const url = new URL(`../vectors/${file}`, import.meta.url);
  const document = JSON.parse(readFileSync(url, 'utf8')) as Record<string, unknown>;
  const counted = family.sections.filter(({ informative, name }) => !informative && typeof name === 'string');
  const listed = counted.map(({ name }) => String(name)).filter((name) => Array.isArray(document[name]));

  it('covers every section', () => {
    expect(Object.keys(NOTICED[file] ?? {}).toSorted()).toEqual(listed.toSorted());
  });

  it.each(listed)('%s: the stated expectations decide', async (section) => {
    await family.prepare?.();
    const entries = document[section] as Record<string, unknown>[];
    const unnoticed = new Set(NOTICED[file]?.[section]);
    for (const entry of entries) {
      for (const name of unnoticed) {
        if (entry[name] !== undefined && isNoticed(family, section, entry, name)) unnoticed.delete(name);
      }
      if (unnoticed.size === 0) break;
    }
    expect([...unnoticed]).toEqual([]);
  });
});
