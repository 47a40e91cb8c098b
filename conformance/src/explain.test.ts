import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { bytesOf } from './avp-bytes.js';
import { kvBody } from './avp-frame.js';
import { outcomeOf } from './expect.js';
import { checkExplanation } from './explained.js';
import { Fields, isRecord } from './fields.js';
import {
  DEFAULT_LIMITS,
  decodeAvp,
  decodeKvCache,
  type Encoding,
  type EncodingName,
  type Explanation,
  encodeAvp,
  encodeTokenIds,
  explainFrame,
  getEncoding,
  loadCodecs,
  loadEncoding,
  Subprotocol,
} from './subject.js';

/**
 * Every frame of the golden vectors is explained: without an error if the decoders of a session accept it,
 * and with the decoder's error if they refuse it. The test knows only the field names that hold frames.
 */

const VECTORS = new URL('../vectors/', import.meta.url);
const ENCODINGS: readonly EncodingName[] = ['CL100K_BASE', 'O200K_BASE', 'LLAMA_BPE'];

interface Found {
  readonly where: string;
  readonly frame: Uint8Array | string;
  readonly isEnvelope: boolean;
  /** The verdict of the case. */
  readonly verdict: string | undefined;
}

const HEX_FRAMES = ['frame_hex', 'encode_hex', 'auth_payload_frame_hex'];
const TEXT_FRAMES = ['frame_string', 'encode_string', 'wire', 'wire_C', 'wire_O', 'wire_L', 'input'];
const ENVELOPES = ['json', 'roundtrip_json', 'reserialized', 'hello', 'response', 'data', 'close'];

/** All frames in a vector file, found by the names of their fields. */
function framesOf(file: string): Found[] {
  const found: Found[] = [];
  const isMessages = file === 'm2m-messages.json';
  const visit = (value: unknown, where: string): void => {
    if (Array.isArray(value)) for (const [i, entry] of value.entries()) visit(entry, `${where}[${i}]`);
    if (!isRecord(value)) return;
    const verdict = typeof value['verdict'] === 'string' ? value['verdict'] : undefined;
    for (const [name, inner] of Object.entries(value)) {
      const at = `${where}.${name}`;
      const add = (frame: Uint8Array | string, isEnvelope = false) =>
        found.push({ where: at, frame, isEnvelope, verdict });
      if (name === 'frame' && isRecord(inner)) {
        const bytes = bytesOf(new Fields(inner));
        if (bytes !== undefined) add(bytes);
      } else if (typeof inner !== 'string') visit(inner, at);
      else if (HEX_FRAMES.includes(name)) add(new Uint8Array(Buffer.from(inner, 'hex')));
      else if (isMessages && (ENVELOPES.includes(name) || name === 'input')) add(inner, true);
      else if (TEXT_FRAMES.includes(name)) add(inner);
    }
  };
  visit(JSON.parse(readFileSync(new URL(file, VECTORS), 'utf8')), file);
  return found;
}

/** Files with keys, hashes, sizes and sessions, and files whose contents become frames in a test of their own below. */
const WITHOUT_FRAMES = [
  'm2m-crypto.json',
  'avp-handshake.json',
  'avp-sizes.json',
  'avp-kv-cache.json',
  'tokenizer.json',
  'session-snapshot.json',
];

let encoding: Encoding;
beforeAll(async () => {
  await loadCodecs(['M2M', 'BROTLI', 'AVP']);
  encoding = await loadEncoding('CL100K_BASE');
  await Promise.all([loadEncoding('O200K_BASE'), loadEncoding('LLAMA_BPE')]);
});

function explained(frame: Uint8Array | string, isEnvelope = false): Explanation {
  const subprotocol = isEnvelope ? Subprotocol.JSON : Subprotocol.BINARY;
  const explanation = explainFrame(frame, { preview: 100, encoding: 'CL100K_BASE', subprotocol });
  checkExplanation(frame, explanation, { limits: DEFAULT_LIMITS, encoding, isEnvelope });
  return explanation;
}

describe('the explainer', () => {
  const files = readdirSync(VECTORS).filter((name) => name.endsWith('.json'));

  it.each(files.filter((name) => !WITHOUT_FRAMES.includes(name)))('explains every frame of %s', (file) => {
    const frames = framesOf(file);
    const failures: string[] = [];
    let [taken, refused] = [0, 0];
    for (const { where, frame, isEnvelope, verdict } of frames) {
      try {
        const { error, summary } = explained(frame, isEnvelope);
        expect(summary).not.toBe('');
        // A protected frame that was tampered with is refused for its tag, and checking that needs the key.
        if (verdict === 'accept') expect(error).toBeUndefined();
        if (verdict === 'reject' && file !== 'm2m-secure.json') expect(error).toBeDefined();
        if (error === undefined) taken++;
        else refused++;
      } catch (error) {
        failures.push(`${where}: ${String(error)}`);
      }
    }
    expect(failures).toEqual([]);
    expect(taken).toBeGreaterThan(10);
    expect(refused + taken).toBe(frames.length);
  });

  it('shows the token IDs of tokenizer.json as their text', () => {
    const { cases } = JSON.parse(readFileSync(new URL('tokenizer.json', VECTORS), 'utf8')) as {
      cases: Record<string, unknown>[];
    };
    let frames = 0;
    for (const given of cases) {
      for (const name of ENCODINGS) {
        const ids = given[name] as number[] | undefined;
        if (ids === undefined) continue;
        const id = getEncoding(name)?.id as number;
        const frame = Uint8Array.from([id, ...encodeTokenIds(Uint32Array.from(ids))]);
        const text = given['text'] as string;
        const { preview, sizes } = explainFrame(frame, { preview: text.length + 1 });
        expect({ text: preview, bytes: sizes.content }).toEqual({ text, bytes: Buffer.byteLength(text) });
        explained(frame);
        frames++;
      }
    }
    expect(frames).toBeGreaterThan(2000);
  });

  it('explains the KV-caches of avp-kv-cache.json in frames, and warns of damaged ones', () => {
    const document = new Fields(
      JSON.parse(readFileSync(new URL('avp-kv-cache.json', VECTORS), 'utf8')) as Record<string, unknown>,
    );
    const dtypes = ['float32', 'float16', 'bfloat16', 'int8'] as const;
    for (const given of document.objects('cases')) {
      const body = bytesOf(given.object('body')) ?? kvBody(given);
      const dtype = given.word('dtype', dtypes);
      for (const compression of ['none', 'fast'] as const) {
        const frame = encodeAvp({ data: body, dtype, payloadType: 'kv_cache' }, { compression });
        const { warnings, fields } = explained(frame);
        expect(warnings).toEqual([]);
        const header = fields.find(({ name }) => name === 'tensor')?.children[0];
        expect(header?.children.map(({ value }) => value)).toEqual([
          ...['num_layers', 'num_kv_heads', 'head_dim', 'seq_len'].map((name) => given.number(name)),
          dtype,
        ]);
      }
    }
    let damaged = 0;
    for (const given of document.objects('invalid_for_deserialize')) {
      const data = bytesOf(given.object('body')) as Uint8Array;
      const frame = encodeAvp({ data, dtype: dtypes[data[16] ?? 0] ?? 'float16', payloadType: 'kv_cache' });
      const refused = outcomeOf(() => decodeKvCache(decodeAvp(frame)));
      const { warnings } = explained(frame);
      expect(warnings.map(({ code }) => code)).toEqual(refused.accepted ? [] : [refused.code]);
      damaged += warnings.length;
    }
    expect(damaged).toBeGreaterThan(8);
  });
});
