import { sha256, toHex } from './avp-bytes.js';
import { fail, holds, same } from './expect.js';
import type { Fields } from './fields.js';
import type { AvpInput, AvpMessage } from './subject.js';

/** Converts AVP metadata to the vectors' words, and back. */

const MODES = { LATENT: 'latent', JSON_MODE: 'json' } as const;
const MODE_WORDS = ['LATENT', 'JSON_MODE'] as const;
const DTYPES = { FLOAT32: 'float32', FLOAT16: 'float16', BFLOAT16: 'bfloat16', INT8: 'int8' } as const;
const DTYPE_WORDS = ['FLOAT32', 'FLOAT16', 'BFLOAT16', 'INT8'] as const;
const PAYLOAD_TYPES = { HIDDEN_STATE: 'hidden_state', KV_CACHE: 'kv_cache' } as const;
const PAYLOAD_TYPE_WORDS = ['HIDDEN_STATE', 'KV_CACHE'] as const;

export const METADATA_WORDS = [
  'session_id',
  'source_agent_id',
  'target_agent_id',
  'model_id',
  'hidden_dim',
  'num_layers',
  'payload_type',
  'dtype',
  'tensor_shape',
  'mode',
  'avp_map_id',
  'extra',
] as const;

/**
 * The input for our encoder that matches a vector's message.
 *
 * @param payloadType the expected type: the reference sets it for KV-caches, regardless of its input.
 */
export function inputOf(metadata: Fields, data: Uint8Array, payloadType: string): AvpInput {
  metadata.only([...METADATA_WORDS, 'compression']);
  return {
    data,
    shape: metadata.numbers('tensor_shape'),
    dtype: DTYPES[metadata.word('dtype', DTYPE_WORDS)],
    payloadType: payloadTypeOf(payloadType),
    metadata: {
      sessionId: metadata.text('session_id'),
      sourceAgentId: metadata.text('source_agent_id'),
      targetAgentId: metadata.text('target_agent_id'),
      modelId: metadata.text('model_id'),
      hiddenDim: metadata.number('hidden_dim'),
      numLayers: metadata.number('num_layers'),
      mode: MODES[metadata.word('mode', MODE_WORDS)],
      avpMapId: metadata.text('avp_map_id'),
      extra: new Map(metadata.list('extra') as [string, string][]),
    },
  };
}

function payloadTypeOf(word: string) {
  const known = PAYLOAD_TYPE_WORDS.find((type) => type === word);
  return known === undefined
    ? fail(`the runner does not know the payload type ${word}`)
    : PAYLOAD_TYPES[known];
}

/** Compares a decoded message to a vector's metadata. */
export function sameMetadata(message: AvpMessage, expected: Fields): void {
  const { metadata } = message;
  const words: Readonly<Record<string, unknown>> = {
    session_id: metadata.sessionId,
    source_agent_id: metadata.sourceAgentId,
    target_agent_id: metadata.targetAgentId,
    model_id: metadata.modelId,
    hidden_dim: metadata.hiddenDim,
    num_layers: metadata.numLayers,
    payload_type: message.payloadType.toUpperCase(),
    dtype: message.dtype.toUpperCase(),
    tensor_shape: [...message.shape],
    mode: MODE_WORDS.find((word) => MODES[word] === metadata.mode),
    avp_map_id: metadata.avpMapId,
    extra: [...metadata.extra].sort(([a], [b]) => (a < b ? -1 : 1)),
  };
  for (const name of expected.names) {
    // Compression is the encoder's choice; it is checked with the header.
    if (name === 'compression') continue;
    holds(Object.hasOwn(words, name), `the runner does not know the metadata field ${name}`);
    same(words[name], expected.raw(name), name);
  }
}

/** Compares a decoded payload to the length, hash and bytes of a vector. */
export function samePayload(message: AvpMessage, expected: Fields): void {
  const length = ['payload_bytes', 'payload_length'].find((name) => expected.has(name));
  if (length !== undefined) same(message.data.length, expected.number(length), 'length of the payload');
  same(sha256(message.data), expected.text('payload_sha256'), 'SHA-256 of the payload');
  if (expected.has('payload_hex')) same(toHex(message.data), expected.text('payload_hex'), 'payload');
}
