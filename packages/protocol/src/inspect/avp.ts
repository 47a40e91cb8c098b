import { type AvpMessage, decodeAvp } from '../codec/avp/frame.js';
import { type AvpHead, decodeAvpHead } from '../codec/avp/head.js';
import { AVP_VERSION, AvpFlag } from '../codec/avp/header.js';
import { decodeKvCache, decodeKvCacheHeader, KV_CACHE_HEADER_SIZE } from '../codec/avp/kv-cache.js';
import { dtypeOf, tensorByteLength } from '../codec/avp/tensor.js';
import { readAvpMetadata } from './avp-metadata.js';
import { showContent } from './content.js';
import { FieldReader } from './field-reader.js';
import { catchFault, Fault } from './report.js';
import { byteCount, count, hex, number, sentence } from './wording.js';

/** AVP frames: header, Protocol Buffers metadata and tensor (binary format document). */

export function readAvp(reader: FieldReader): string {
  const { report, rest: frame, offset: start } = reader;
  const options = {
    maxSize: report.limits.maxTransferSize,
    maxDecompressedSize: report.limits.maxMessageSize,
  };
  const walked = catchFault(() => walk(reader, start));
  let head: AvpHead | undefined;
  const badHead = catchFault(() => {
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
  const badBody = catchFault(() => {
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
  if (reader.text('magic', 2) !== 'AV') reader.fail('bad_header', 'not an AVP frame', start);
  reader.note('an AVP frame');
  const version = reader.u8('version');
  reader.annotate(version, 'format version');
  if (version !== AVP_VERSION) reader.fail('unknown_version', 'unknown version', start + 2);
  const flags = reader.u8('flags');
  reader.annotate(hex(flags), flagNames(flags));
  const payloadLength = reader.u32('payload length');
  reader.note('bytes after this header: metadata and tensor');
  const metadataLength = reader.u32('metadata length');
  reader.note('bytes that describe the tensor');
  if (metadataLength > payloadLength)
    reader.fail('bad_header', 'the metadata is longer than the payload', start + 8);
  readMetadata(reader, metadataLength);
  const bodyLength = payloadLength - metadataLength;
  if (bodyLength > reader.remaining) {
    reader.fail('truncated', `the tensor has ${byteCount(bodyLength)}, only ${reader.remaining} are left`);
  }
  reader.take('tensor', bodyLength);
  reader.note(
    (flags & AvpFlag.COMPRESSED) !== 0
      ? `${byteCount(bodyLength)}, compressed with zstd`
      : byteCount(bodyLength),
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
    reader.fail('truncated', `the metadata has ${byteCount(length)}, only ${reader.remaining} are left`);
  }
  reader.within('metadata', length, readAvpMetadata);
}

/** Offset of the field that a refusal is about, if the walk found no damage. */
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

/** Layers listed one by one. */
const MAX_LAYERS = 4;

/**
 * Reads the header of the cache and lists its layers. A receiver accepts a frame without checking its
 * cache, so a defect here is only a warning.
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
  const fault = catchFault(() => {
    readKvCacheHeader(inner);
    readLayers(inner, message);
  });
  const refused = catchFault(() => void decodeKvCache(message));
  if (refused === undefined) return;
  tensor.note = `${tensor.note}; not a readable KV-cache`;
  report.warn(refused.error, isCompressed ? offset : (fault?.offset ?? offset));
}

function readKvCacheHeader(reader: FieldReader): void {
  reader.group('KV-cache header', () => {
    reader.u32('layers');
    reader.u32('heads');
    reader.u32('head dimension');
    reader.u32('sequence length');
    reader.note('tokens in the cache');
    const code = reader.u8('dtype');
    reader.annotate(dtypeOf(code) ?? `unknown (${code})`);
  });
}

function readLayers(reader: FieldReader, message: AvpMessage): void {
  const { numLayers, numKvHeads, headDim, seqLen, dtype } = decodeKvCacheHeader(message.data);
  const shape = [numKvHeads, seqLen, headDim];
  const size = tensorByteLength(shape, dtype);
  if (KV_CACHE_HEADER_SIZE + 2 * numLayers * size !== message.data.length) {
    reader.fail('bad_tensor', 'the layers do not match the size of the tensor');
  }
  for (let layer = 0; layer < Math.min(numLayers, MAX_LAYERS); layer++) {
    for (const part of ['keys', 'values']) {
      reader.take(`layer ${layer} ${part}`, size);
      reader.annotate(`[${shape.join(', ')}]`, `${dtype}: heads, tokens, dimension`);
    }
  }
  if (numLayers <= MAX_LAYERS) return;
  reader.take('more layers', reader.remaining);
  reader.note(`${count(numLayers - MAX_LAYERS, 'layer')} like these`);
}

function phraseOf(
  { payloadType, dtype, shape, metadata, bodyLength, header }: AvpHead,
  content: number | undefined,
): string {
  const dimensions = shape.length === 0 ? '' : ` [${shape.join(', ')}]`;
  return sentence(
    `${payloadType === 'kv_cache' ? 'KV-cache' : 'hidden state'} of ${dtype}${dimensions}`,
    header.compressed && content !== undefined
      ? `${byteCount(bodyLength)} for ${number(content)}`
      : byteCount(bodyLength),
    metadata.modelId && `model ${metadata.modelId}`,
  );
}
