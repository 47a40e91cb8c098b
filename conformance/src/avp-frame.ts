import { bytesOf, makeRecipe, sameDigest, toHex } from './avp-bytes.js';
import { inputOf, sameMetadata, samePayload } from './avp-message.js';
import { accepted, fail, holds, same } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import {
  type AvpMessage,
  decodeAvp,
  decodeKvCache,
  encodeAvp,
  encodeKvCache,
  loadCodecs,
  readAvpHeader,
} from './subject.js';

/** AVP frames in both directions; `check` says how exactly they must match. */
export const avpFrame: Family = {
  file: 'avp-frame.json',
  head: ['generator', 'encoding', 'recipes', 'notes'],
  sections: [{ name: 'cases', check: checkFrame }],
  prepare: () => loadCodecs(['AVP']),
};

const CHECKS = ['encode+decode', 'semantic-encode+decode', 'decode-only'] as const;
const COMPRESSIONS = { NONE: 'none', FAST: 'fast', BALANCED: 'balanced', MAX: 'max' } as const;
const COMPRESSION_WORDS = ['NONE', 'FAST', 'BALANCED', 'MAX'] as const;

function checkFrame(given: Fields): void {
  const check = given.word('check', CHECKS);
  const frame = bytesOf(given.object('frame'));
  const decoded = given.object('decoded');
  if (frame !== undefined) checkDecode(frame, given);
  if (check === 'decode-only') {
    holds(frame !== undefined, 'the case has no frame to decode');
    return;
  }

  const encoded = encodeCase(given);
  const message = accepted(() => decodeAvp(encoded), 'our own frame');
  sameDecoded(message, decoded);
  if (given.object('payload').has('float32')) {
    same([...message.toTyped()], given.object('payload').numbers('float32').map(Math.fround), 'elements');
  }
  if (check === 'encode+decode') sameBytes(encoded, given.object('frame'));
  else if (given.has('frame_sorted_map'))
    same(toHex(encoded), given.object('frame_sorted_map').text('hex'), 'frame');
  else checkCompression(encoded, decoded);
}

/** Byte for byte; if the vector leaves out the bulk, by its beginning and its hash. */
function sameBytes(encoded: Uint8Array, expected: Fields): void {
  for (const name of ['hex', 'head_hex']) {
    const start = expected.maybe('text', name);
    if (start !== undefined) same(toHex(encoded.subarray(0, start.length / 2)), start, name);
  }
  sameDigest(encoded, expected);
}

/** A body is compressed if and only if that makes the frame smaller. */
function checkCompression(encoded: Uint8Array, decoded: Fields): void {
  const { payloadLength, metadataLength, compressed } = readAvpHeader(encoded);
  const body = payloadLength - metadataLength;
  if (compressed) holds(body < decoded.number('payload_length'), 'a compressed body that grew was kept');
  else same(body, decoded.number('payload_length'), 'length of an uncompressed body');
}

function checkDecode(frame: Uint8Array, given: Fields): void {
  const decoded = given.object('decoded');
  const message = accepted(() => decodeAvp(frame), 'the frame');
  sameDecoded(message, decoded);
  const { header } = message;
  const words: Readonly<Record<string, unknown>> = {
    magic_hex: toHex(frame.subarray(0, 2)),
    version: header.version,
    flags: header.flags,
    payload_length: header.payloadLength,
    metadata_length: header.metadataLength,
    compressed: header.compressed,
    has_map: header.hasMap,
    is_kv_cache: header.isKvCache,
  };
  const expected = decoded.object('header');
  for (const name of expected.names) {
    if (!Object.hasOwn(words, name)) fail(`the runner does not know the header field ${name}`);
    same(words[name], expected.raw(name), name);
  }
  same(message.headLength + message.bodyLength, decoded.number('raw_size'), 'raw_size');
  same(header.compressed, decoded.object('metadata').has('compression'), 'compression');

  // A decoded frame can be passed on: it encodes to a frame that decodes to the same, unknown fields
  // included.
  const relayed = accepted(
    () => encodeAvp(message, { checksum: message.checksum !== undefined }),
    'relaying',
  );
  const again = accepted(() => decodeAvp(relayed), 'the relayed frame');
  sameDecoded(again, decoded);
  same(toHex(again.metadata.unknownFields), toHex(message.metadata.unknownFields), 'unknown fields');
}

function sameDecoded(message: AvpMessage, decoded: Fields): void {
  sameMetadata(message, decoded.object('metadata'));
  samePayload(message, decoded);
  same(message.checksum ?? null, decoded.object('wire').raw('payload_checksum'), 'payload_checksum');
}

/** Encodes a case with our own encoder. */
function encodeCase(given: Fields): Uint8Array {
  const options = given.object('options');
  options.only(['compression', 'checksum']);
  const payloadType = given.object('decoded').object('metadata').text('payload_type');
  const input = inputOf(given.object('metadata'), payloadOf(given), payloadType);
  const compression = options.has('compression') ? options.word('compression', COMPRESSION_WORDS) : 'NONE';
  return accepted(
    () =>
      encodeAvp(input, {
        compression: COMPRESSIONS[compression],
        checksum: options.flag('checksum'),
      }),
    'the message',
  );
}

/** The payload of a case; a KV-cache is made by our own serializer. */
function payloadOf(given: Fields): Uint8Array {
  const payload = given.object('payload');
  const bytes = payload.has('kv') ? kvBody(payload.object('kv')) : bytesOf(payload);
  if (bytes === undefined) return fail('the case gives no payload');
  sameDigest(bytes, payload);
  if (payload.has('text')) same(new TextDecoder().decode(bytes), payload.text('text'), 'text of the payload');
  return bytes;
}

const KV_DTYPES = ['float32', 'float16', 'bfloat16', 'int8'] as const;

/** A KV-cache body whose layers a recipe generates one after another, keys before values. */
export function kvBody(given: Fields, tensors = makeRecipe(given.object('tensor_recipe'))): Uint8Array {
  const layers = given.number('num_layers');
  const size = tensors.length / layers / 2;
  const tensor = (index: number) => tensors.subarray(index * size, (index + 1) * size);
  const body = accepted(
    () =>
      encodeKvCache(
        Array.from({ length: layers }, (_, i) => ({ key: tensor(2 * i), value: tensor(2 * i + 1) })),
        {
          numKvHeads: given.number('num_kv_heads'),
          headDim: given.number('head_dim'),
          seqLen: given.number('seq_len'),
          dtype: given.word('dtype', KV_DTYPES),
        },
      ),
    'the KV-cache',
  );
  same([...accepted(() => decodeKvCache(body), 'our own KV-cache')].length, layers, 'layers');
  return body;
}
