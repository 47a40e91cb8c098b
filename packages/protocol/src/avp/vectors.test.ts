import { beforeAll, describe, expect, it } from 'vitest';
import { platform } from '#platform';
import { equalBytes } from '../bytes.js';
import { isProtocolError } from '../errors.js';
import { type AvpCompression, type AvpMessage, decodeAvp, encodeAvp } from './frame.js';
import { readAvpHeader } from './header.js';
import { decodeKvCache, encodeKvCache } from './kv-cache.js';
import type { AvpMode, PayloadType } from './metadata.js';
import type { Dtype } from './tensor.js';
import {
  type Bytes,
  bytesOf,
  fromHex,
  makeRecipe,
  type Recipe,
  readVectors,
  sha256,
  toHex,
} from './testing/vectors.js';

/** avp-frame, avp-invalid and avp-sizes of the golden vectors, by what each case says of itself. */

interface VectorMetadata {
  session_id: string;
  source_agent_id: string;
  target_agent_id: string;
  model_id: string;
  hidden_dim: number;
  num_layers: number;
  payload_type: string;
  dtype: string;
  tensor_shape: number[];
  mode: string;
  avp_map_id: string;
  extra: [string, string][];
  compression?: string | null;
}

interface FrameCase {
  name: string;
  check: string;
  metadata?: VectorMetadata;
  options: { compression?: string; checksum: boolean };
  payload: Bytes & {
    text?: string;
    kv?: {
      num_layers: number;
      num_kv_heads: number;
      head_dim: number;
      seq_len: number;
      dtype: Dtype;
      tensor_recipe: Recipe;
    };
  };
  frame: Bytes & { head_hex?: string };
  frame_sorted_map?: { hex: string };
  decoded: {
    header: Record<string, unknown>;
    metadata: VectorMetadata;
    wire: { compression_field: string | null; payload_checksum: number | null };
    payload_length: number;
    payload_sha256: string;
    raw_size: number;
    payload_hex?: string;
  };
}

interface InvalidCase {
  name: string;
  verdict: 'accept' | 'reject' | 'either';
  kv_verdict?: 'accept' | 'reject' | 'either';
  frame: Bytes;
}

const MODES: Record<string, AvpMode> = { LATENT: 'latent', JSON_MODE: 'json' };

/** What our own encoder is given for a case. */
function encodeCase(given: FrameCase): Uint8Array {
  const { metadata, decoded, options } = given;
  if (metadata === undefined) throw new Error(`${given.name} has nothing to encode`);
  return encodeAvp(
    {
      data: payloadOf(given),
      shape: metadata.tensor_shape,
      dtype: metadata.dtype.toLowerCase() as Dtype,
      payloadType: decoded.metadata.payload_type.toLowerCase() as PayloadType,
      metadata: {
        sessionId: metadata.session_id,
        sourceAgentId: metadata.source_agent_id,
        targetAgentId: metadata.target_agent_id,
        modelId: metadata.model_id,
        hiddenDim: metadata.hidden_dim,
        numLayers: metadata.num_layers,
        mode: MODES[metadata.mode],
        avpMapId: metadata.avp_map_id,
        extra: new Map(metadata.extra),
      },
    },
    {
      compression: (options.compression ?? 'none').toLowerCase() as AvpCompression,
      checksum: options.checksum,
    },
  );
}

function payloadOf({ payload }: FrameCase): Uint8Array {
  const bytes = payload.kv === undefined ? bytesOf(payload) : kvBody(payload.kv);
  if (bytes === undefined) throw new Error('a payload without bytes');
  expect([bytes.length, sha256(bytes)]).toEqual([payload.length, payload.sha256]);
  if (payload.text !== undefined) expect(new TextDecoder().decode(bytes)).toBe(payload.text);
  return bytes;
}

function kvBody(kv: NonNullable<FrameCase['payload']['kv']>): Uint8Array {
  const tensors = makeRecipe(kv.tensor_recipe);
  const size = tensors.length / kv.num_layers / 2;
  const tensor = (index: number) => tensors.subarray(index * size, (index + 1) * size);
  return encodeKvCache(
    Array.from({ length: kv.num_layers }, (_, i) => ({ key: tensor(2 * i), value: tensor(2 * i + 1) })),
    { numKvHeads: kv.num_kv_heads, headDim: kv.head_dim, seqLen: kv.seq_len, dtype: kv.dtype },
  );
}

/** A decoded message in the vectors' words, without what depends on how it was compressed. */
function inVectorWords(message: AvpMessage): object {
  const { metadata } = message;
  return {
    session_id: metadata.sessionId,
    source_agent_id: metadata.sourceAgentId,
    target_agent_id: metadata.targetAgentId,
    model_id: metadata.modelId,
    hidden_dim: metadata.hiddenDim,
    num_layers: metadata.numLayers,
    payload_type: message.payloadType.toUpperCase(),
    dtype: message.dtype.toUpperCase(),
    tensor_shape: message.shape,
    mode: Object.entries(MODES).find(([, mode]) => mode === metadata.mode)?.[0],
    avp_map_id: metadata.avpMapId,
    extra: [...metadata.extra].sort(([a], [b]) => (a < b ? -1 : 1)),
    payload_checksum: message.checksum ?? null,
    payload_length: message.data.length,
    payload_sha256: sha256(message.data),
  };
}

function expectDecoded(message: AvpMessage, { decoded }: FrameCase): void {
  const { compression: _, ...metadata } = decoded.metadata;
  expect(inVectorWords(message)).toEqual({
    ...metadata,
    payload_checksum: decoded.wire.payload_checksum,
    payload_length: decoded.payload_length,
    payload_sha256: decoded.payload_sha256,
  });
  if (decoded.payload_hex !== undefined) expect(toHex(message.data)).toBe(decoded.payload_hex);
}

function outcome(run: () => unknown): { accepted: boolean; code?: string } {
  try {
    run();
    return { accepted: true };
  } catch (error) {
    if (isProtocolError(error)) return { accepted: false, code: error.code };
    throw error;
  }
}

function expectVerdict(verdict: InvalidCase['verdict'], result: { accepted: boolean; code?: string }): void {
  if (verdict === 'either') return;
  expect(result).toMatchObject({ accepted: verdict === 'accept' });
}

beforeAll(() => platform.loadZstd());

describe('avp-frame vectors', () => {
  const { cases, count } = readVectors<{ cases: FrameCase[]; count: number }>('avp-frame.json');

  it('are all there', () => expect(cases).toHaveLength(count));

  it.each(cases.map((given) => [given.name, given] as const))('%s', (_name, given) => {
    const [kind] = given.check.split('+');
    expect(['encode', 'semantic-encode', 'decode-only']).toContain(kind);
    const frame = bytesOf(given.frame);

    if (frame !== undefined) {
      const message = decodeAvp(frame);
      expectDecoded(message, given);
      const { header } = message;
      expect({
        magic_hex: toHex(frame.subarray(0, 2)),
        version: header.version,
        flags: header.flags,
        payload_length: header.payloadLength,
        metadata_length: header.metadataLength,
        compressed: header.compressed,
        has_map: header.hasMap,
        is_kv_cache: header.isKvCache,
      }).toEqual(given.decoded.header);
      expect(message.headLength + message.bodyLength).toBe(given.decoded.raw_size);
      // What was decoded encodes again to what decodes to the same, unknown fields included.
      const again = decodeAvp(encodeAvp(message, { checksum: message.checksum !== undefined }));
      expectDecoded(again, given);
      expect(again.metadata.unknownFields).toEqual(message.metadata.unknownFields);
    }

    if (kind === 'decode-only') return;
    const encoded = encodeCase(given);
    expectDecoded(decodeAvp(encoded), given);
    if (kind === 'encode') {
      expect([encoded.length, sha256(encoded)]).toEqual([given.frame.length, given.frame.sha256]);
      if (given.frame.head_hex !== undefined) {
        expect(toHex(encoded.subarray(0, given.frame.head_hex.length / 2))).toBe(given.frame.head_hex);
      }
    } else if (given.frame_sorted_map !== undefined) {
      expect(toHex(encoded)).toBe(given.frame_sorted_map.hex);
    } else {
      const { payloadLength, metadataLength, compressed } = readAvpHeader(encoded);
      const raw = metadataLength + given.decoded.payload_length;
      if (compressed) expect(payloadLength).toBeLessThan(raw);
      else expect(payloadLength).toBe(raw);
    }
  });
});

describe('avp-invalid vectors', () => {
  const { cases, count } = readVectors<{ cases: InvalidCase[]; count: number }>('avp-invalid.json');

  it('are all there', () => expect(cases).toHaveLength(count));

  it.each(cases.map((given) => [given.name, given] as const))('%s', (_name, given) => {
    const frame = bytesOf(given.frame);
    if (frame === undefined) throw new Error('a frame without bytes');
    expect([frame.length, sha256(frame)]).toEqual([given.frame.length, given.frame.sha256]);
    let message: AvpMessage | undefined;
    const result = outcome(() => {
      message = decodeAvp(frame);
    });
    expectVerdict(given.verdict, result);
    outcome(() => decodeAvp(frame, { lenient: true }));
    if (message === undefined || given.kv_verdict === undefined) return;
    const accepted = message;
    expectVerdict(
      given.kv_verdict,
      outcome(() => [...decodeKvCache(accepted)]),
    );
  });
});

describe('avp-sizes vectors', () => {
  interface SizeRow {
    dim: number;
    dtype: Dtype;
    current_format_recipes_with_the_same_total: {
      model_id: string;
      hidden_dim: number;
      tensor_shape: number[];
      checksum: boolean;
      payload_recipe: Recipe;
      total: number;
      overhead: number;
      head_hex: string;
      frame_sha256: string;
    }[];
  }
  const { rows } = readVectors<{ rows: SizeRow[] }>('avp-sizes.json');

  it.each(rows.map((row) => [row.dim, row.dtype, row] as const))('%d × %s', (_dim, dtype, row) => {
    for (const recipe of row.current_format_recipes_with_the_same_total) {
      const data = makeRecipe(recipe.payload_recipe);
      const frame = encodeAvp(
        {
          data,
          shape: recipe.tensor_shape,
          dtype,
          payloadType: 'hidden_state',
          metadata: { modelId: recipe.model_id, hiddenDim: recipe.hidden_dim },
        },
        { checksum: recipe.checksum },
      );
      expect([frame.length, sha256(frame)]).toEqual([recipe.total, recipe.frame_sha256]);
      expect(equalBytes(frame.subarray(0, recipe.overhead), fromHex(recipe.head_hex))).toBe(true);
      expect(equalBytes(decodeAvp(frame).data, data)).toBe(true);
    }
  });
});
