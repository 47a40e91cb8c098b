import { type AvpMessage, decodeAvp } from '../codec/avp/frame.js';
import { type AvpHead, decodeAvpHead } from '../codec/avp/head.js';
import { AVP_VERSION, AvpFlag } from '../codec/avp/header.js';
import { decodeKvCache, decodeKvCacheHeader, KV_CACHE_HEADER_SIZE } from '../codec/avp/kv-cache.js';
import { dtypeOf, tensorByteLength } from '../codec/avp/tensor.js';
import { readAvpMetadata } from './avp-metadata.js';
import { showContent } from './content.js';
import { FieldReader } from './field-reader.js';
import { attempt, Fault } from './report.js';
import { bytes as bytesPhrase, count, hex, number, sentence } from './wording.js';

/** AVP: header, Protocol Buffers metadata, and the tensor (binary format document). */

export function readAvp(reader: FieldReader): string {
  const { report, rest: frame, offset: start } = reader;
  const options = {
    maxSize: report.limits.maxTransferSize,
    maxDecompressedSize: report.limits.maxMessageSize,
  };
  const walked = attempt(() => walk(reader, start));
  let head: AvpHead | undefined;
  const badHead = attempt(() => {
    head = decodeAvpHead(frame, options);
  });
  if (head === undefined || badHead !== undefined) {
    throw new Fault(
      (badHead as Fault).error,
      walked?.offset ?? placeInHead(reader, badHead as Fault) ?? start,
    );
  }
  report.body = head.bodyLength;
  let message: AvpMessage | undefined;
  const badBody = attempt(() => {
    message = reader.checkLoaded('AVP', () => decodeAvp(frame, options));
  });
  if (badBody !== undefined) {
    const place = badBody.error.code === 'bad_checksum' ? reader.locate('payload_checksum') : undefined;
    throw new Fault(badBody.error, walked?.offset ?? place ?? start + head.headLength);
  }
  if (message !== undefined) {
    report.content = message.data.length;
    if (message.payloadType === 'kv_cache') readKvCache(reader, message, start + head.headLength);
    else if (message.metadata.mode === 'json') showContent(report, message.data, false);
  }
  return phraseOf(head, report.content);
}

function walk(reader: FieldReader, start: number): void {
  if (reader.text('magic', 2) !== 'AV') reader.fail('bad_header', 'no AVP frame', start);
  reader.say(undefined, 'says that AVP follows');
  const version = reader.u8('version');
  reader.say(version, 'of the format');
  if (version !== AVP_VERSION) reader.fail('unknown_version', 'unknown', start + 2);
  const flags = reader.u8('flags');
  reader.say(hex(flags), flagNames(flags));
  const payloadLength = reader.u32('payload length');
  reader.say(undefined, 'bytes behind this header: metadata and tensor');
  const metadataLength = reader.u32('metadata length');
  reader.say(undefined, 'bytes that describe the tensor');
  if (metadataLength > payloadLength)
    reader.fail('bad_header', 'more metadata than there is room', start + 8);
  readMetadata(reader, metadataLength);
  const bodyLength = payloadLength - metadataLength;
  if (bodyLength > reader.remaining) {
    reader.fail('truncated', `the tensor has ${bytesPhrase(bodyLength)}, ${reader.remaining} are there`);
  }
  reader.take('tensor', bodyLength);
  reader.say(
    undefined,
    (flags & AvpFlag.COMPRESSED) !== 0
      ? `${bytesPhrase(bodyLength)}, compressed with zstd`
      : bytesPhrase(bodyLength),
  );
  reader.expectEnd('the frame');
}

function flagNames(flags: number): string {
  const names = [
    (flags & AvpFlag.COMPRESSED) !== 0 && 'compressed',
    (flags & AvpFlag.HAS_MAP) !== 0 && 'projection map',
    (flags & AvpFlag.KV_CACHE) !== 0 && 'KV-cache',
  ].filter((name) => name !== false);
  return names.length === 0 ? 'none set' : names.join(', ');
}

function readMetadata(reader: FieldReader, length: number): void {
  if (length > reader.remaining) {
    reader.fail('truncated', `the metadata have ${bytesPhrase(length)}, ${reader.remaining} are there`);
  }
  reader.within('metadata', length, readAvpMetadata);
}

/** What a refusal is about where every field could be read. */
function placeInHead(reader: FieldReader, { error }: Fault): number | undefined {
  for (const name of PLACES[error.code] ?? ['metadata']) {
    const place = reader.locate(name);
    if (place !== undefined) return place;
  }
  return undefined;
}

const PLACES: Readonly<Record<string, readonly string[]>> = {
  bad_header: ['flags'],
  unknown_version: ['version'],
  message_too_large: ['payload length'],
  metadata_too_large: ['metadata length'],
  bad_tensor: ['tensor_shape', 'tensor'],
  bad_compression: ['compression', 'flags'],
};

/** Layers that are listed one by one. */
const MAX_LAYERS = 4;

/**
 * The header of the cache and where its layers are. A frame is taken whatever its cache says, so what
 * does not hold here is a warning.
 */
function readKvCache(reader: FieldReader, message: AvpMessage, offset: number): void {
  const { report } = reader;
  const tensor = reader.find('tensor');
  const isCompressed = message.header.compressed;
  if (tensor === undefined) return;
  if (isCompressed) tensor.bytes = message.data;
  const bytes = isCompressed ? message.data : reader.bytes.subarray(0, offset + message.data.length);
  const inner = new FieldReader(report, bytes, tensor.children);
  if (!isCompressed) inner.skip(offset);
  const fault = attempt(() => {
    readKvCacheHeader(inner);
    readLayers(inner, message);
  });
  const refused = attempt(() => void decodeKvCache(message));
  if (refused === undefined) return;
  tensor.note = `${tensor.note}; it holds no KV-cache that could be read`;
  report.warn(refused.error, isCompressed ? offset : (fault?.offset ?? offset));
}

function readKvCacheHeader(reader: FieldReader): void {
  reader.group('KV-cache header', () => {
    reader.u32('layers');
    reader.u32('heads');
    reader.u32('head dimension');
    reader.u32('sequence length');
    reader.say(undefined, 'tokens in the cache');
    const code = reader.u8('dtype');
    reader.say(dtypeOf(code) ?? `unknown (${code})`);
  });
}

function readLayers(reader: FieldReader, message: AvpMessage): void {
  const { numLayers, numKvHeads, headDim, seqLen, dtype } = decodeKvCacheHeader(message.data);
  const shape = [numKvHeads, seqLen, headDim];
  const size = tensorByteLength(shape, dtype);
  if (KV_CACHE_HEADER_SIZE + 2 * numLayers * size !== message.data.length) {
    reader.fail('bad_tensor', 'the layers do not fill the tensor');
  }
  for (let layer = 0; layer < Math.min(numLayers, MAX_LAYERS); layer++) {
    for (const part of ['keys', 'values']) {
      reader.take(`layer ${layer} ${part}`, size);
      reader.say(`[${shape.join(', ')}]`, `${dtype}: heads, tokens, dimension`);
    }
  }
  if (numLayers <= MAX_LAYERS) return;
  reader.take('more layers', reader.remaining);
  reader.say(undefined, `${count(numLayers - MAX_LAYERS, 'layer')} like these`);
}

function phraseOf(
  { payloadType, dtype, shape, metadata, bodyLength, header }: AvpHead,
  content: number | undefined,
): string {
  const dimensions = shape.length === 0 ? '' : ` [${shape.join(', ')}]`;
  return sentence(
    `${payloadType === 'kv_cache' ? 'KV-cache' : 'hidden state'} of ${dtype}${dimensions}`,
    header.compressed && content !== undefined
      ? `${bytesPhrase(bodyLength)} for ${number(content)}`
      : bytesPhrase(bodyLength),
    metadata.modelId && `model ${metadata.modelId}`,
  );
}
