import { cryptoSuite } from '#crypto';
import { toHex } from '../../base/bytes.js';
import { ProtocolError } from '../../base/errors.js';
import { encodeUtf8 } from '../../base/text.js';
import { canonicalJson, compareCodePoints, exactInteger, quoted } from './canonical-json.js';
import { type LosslessJson, parseLosslessJson } from './lossless-json.js';
import { isUint32 } from './tensor.js';

/** The model that an agent runs, which a peer must know to decide whether it can use its tensors. */
export interface ModelIdentity {
  /** `model_type` of the config, for example `llama`. In all fields, an empty string or 0 means unknown. */
  readonly modelFamily: string;
  /** The name or path from which the model was loaded, for example `meta-llama/Llama-2-7b`. */
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

/** Tokens and their IDs; if a token occurs twice, the last one counts. */
export type VocabularyEntries = Iterable<readonly [token: string, id: number]>;

/**
 * The identity of a model from its config, equal to the reference's for the same text. Peers that load the model with `transformers` hash
 * `config.to_dict()`, which has more members than the file `config.json`: give the JSON of that to have their `modelHash`.
 *
 * It takes the text and not an object, because `10000.0` and `10000` are the same JavaScript number but
 * different models. A `num_key_value_heads` of null means the number of attention heads, as in the models'
 * own library; the reference keeps the null.
 *
 * @param configJson text of the model's `config.json`, or of its `to_dict()`.
 * @param vocabulary the vocabulary of the model's tokenizer, for `tokenizerHash`.
 * @throws {ProtocolError} `bad_json`, `json_too_deep`, `invalid_argument` if the config is not an object or a
 * size in it is not a whole number.
 */
export function modelIdentity(configJson: string, vocabulary?: VocabularyEntries): ModelIdentity {
  const config = parseLosslessJson(configJson);
  if (!(config instanceof Map)) {
    throw new ProtocolError('invalid_argument', 'a model config must be a JSON object');
  }
  // The second names are GPT-2's.
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
 * @throws {ProtocolError} `invalid_argument` for an ID that is not a whole number.
 */
export function tokenizerHash(vocabulary: VocabularyEntries): string {
  return hashOf(canonicalVocabulary(vocabulary));
}

/** The text that {@link tokenizerHash} hashes. */
export function canonicalVocabulary(vocabulary: VocabularyEntries): string {
  const entries = [...new Map(vocabulary)].sort(([a], [b]) => compareCodePoints(a, b));
  return `[${entries.map(([token, id]) => `[${quoted(token)},${exactInteger(id)}]`).join(',')}]`;
}

function hashOf(canonical: string): string {
  return toHex(cryptoSuite.sha256(encodeUtf8(canonical)));
}

type Config = ReadonlyMap<string, LosslessJson>;

function text(config: Config, key: string): string {
  const value = config.get(key) ?? '';
  if (typeof value === 'string') return value;
  throw new ProtocolError('invalid_argument', `${key} of a model config must be a string`);
}

function count(config: Config, key: string): number {
  const value = config.get(key) ?? 0n;
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (isUint32(number)) return number;
  throw new ProtocolError('invalid_argument', `${key} of a model config must be a whole number below 2^32`);
}
