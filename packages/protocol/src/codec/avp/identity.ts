import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import { encodeUtf8 } from '../../base/text.js';
import { canonicalJson, exactInteger, quoted } from './canonical-json.js';
import { compareCodePoints } from './code-points.js';
import { type LosslessJson, parseLosslessJson } from './lossless-json.js';
import { isUint32 } from './tensor.js';

/** Which model an agent runs, as far as the other side needs it to know what it can read. */
export interface ModelIdentity {
  /** `model_type` of the config, for example `llama`. Empty is unknown, as in all fields. */
  readonly modelFamily: string;
  /** Where the model was loaded from, for example `meta-llama/Llama-2-7b`. */
  readonly modelId: string;
  /** SHA-256 of the canonical config, 64 hexadecimal digits. */
  readonly modelHash: string;
  readonly hiddenDim: number;
  readonly numLayers: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  /** SHA-256 of the canonical vocabulary, 64 hexadecimal digits. */
  readonly tokenizerHash: string;
}

/** Tokens and their IDs; of repeated tokens the last one counts. */
export type Vocabulary = Iterable<readonly [token: string, id: number]>;

/**
 * Identity of a model by its config file, equal to the reference's for the same text.
 *
 * The text is needed, not an object: `10000.0` and `10000` are the same JavaScript number and
 * different models. A `num_key_value_heads` of null means as many as attention heads, as it does
 * to the models' own library; the reference passes the null on.
 *
 * @param configJson text of the model's `config.json`.
 * @param vocabulary of the model's tokenizer, for `tokenizerHash`.
 * @throws {ProtocolError} `bad_json`, `json_too_deep`, `invalid_argument` where the config is no
 * object or a size in it no whole number.
 */
export function modelIdentity(configJson: string, vocabulary?: Vocabulary): ModelIdentity {
  const config = parseLosslessJson(configJson);
  if (!(config instanceof Map)) {
    throw new ProtocolError('invalid_argument', 'a model config is a JSON object');
  }
  // The second names are those of GPT-2.
  const hiddenDim = count(config, 'hidden_size') || count(config, 'n_embd');
  const numLayers = count(config, 'num_hidden_layers') || count(config, 'n_layer');
  const numHeads = count(config, 'num_attention_heads') || count(config, 'n_head');
  const statesKvHeads = (config.get('num_key_value_heads') ?? null) !== null;
  return {
    modelFamily: text(config, 'model_type'),
    modelId: text(config, '_name_or_path'),
    modelHash: hashOf(canonicalJson(config)),
    hiddenDim,
    numLayers,
    numKvHeads: statesKvHeads ? count(config, 'num_key_value_heads') : numHeads,
    headDim: count(config, 'head_dim') || (numHeads > 0 ? Math.floor(hiddenDim / numHeads) : 0),
    tokenizerHash: vocabulary === undefined ? '' : tokenizerHash(vocabulary),
  };
}

/**
 * SHA-256 of a config's canonical JSON, in hexadecimal.
 *
 * @throws {ProtocolError} `bad_json`, `json_too_deep`.
 */
export function modelHash(configJson: string): string {
  return hashOf(canonicalJson(parseLosslessJson(configJson)));
}

/**
 * SHA-256 of the vocabulary as a canonical JSON array of `[token, id]`, in hexadecimal. The order
 * of the entries does not matter.
 *
 * @throws {ProtocolError} `invalid_argument` for an ID that is no whole number.
 */
export function tokenizerHash(vocabulary: Vocabulary): string {
  return hashOf(canonicalVocabulary(vocabulary));
}

/** What {@link tokenizerHash} hashes. */
export function canonicalVocabulary(vocabulary: Vocabulary): string {
  const entries = [...new Map(vocabulary)].sort(([a], [b]) => compareCodePoints(a, b));
  return `[${entries.map(([token, id]) => `[${quoted(token)},${exactInteger(id)}]`).join(',')}]`;
}

function hashOf(canonical: string): string {
  const digest = platform.crypto.sha256(encodeUtf8(canonical));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

type Config = ReadonlyMap<string, LosslessJson>;

function text(config: Config, key: string): string {
  const value = config.get(key) ?? '';
  if (typeof value === 'string') return value;
  throw new ProtocolError('invalid_argument', `${key} of a model config is a string`);
}

function count(config: Config, key: string): number {
  const value = config.get(key) ?? 0n;
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (isUint32(number)) return number;
  throw new ProtocolError('invalid_argument', `${key} of a model config is a whole number below 2^32`);
}
