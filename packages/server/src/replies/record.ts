import { BodyCodec, type CodedBody } from '@parlance/protocol';
import { ByteReader, ByteWriter, isSized } from '@parlance/protocol/internal';

/**
 * A recorded part:
 *
 *     codec and flags (1)   [varint: length after decoding]   [varint: length of metadata, metadata]   coded bytes
 *
 * The low nibble of the first byte is the codec of a link frame. The length is there for the codecs that do not state
 * it themselves. A part is never coded in context.
 */
const SECRET = 0x10;
const METADATA = 0x20;
const CODEC = 0x0f;

export type RecordedBody = Pick<CodedBody, 'codec' | 'bytes' | 'originalLength' | 'secret' | 'metadata'>;

export function encodeRecord(
  { codec, bytes, originalLength, secret }: CodedBody,
  metadata: Uint8Array | undefined,
): Uint8Array {
  const isPlain = metadata === undefined && !isSized(codec);
  const flags = (secret ? SECRET : 0) | (metadata === undefined ? 0 : METADATA);
  if (isPlain) {
    const record = new Uint8Array(1 + bytes.length);
    record[0] = codec | flags;
    record.set(bytes, 1);
    return record;
  }
  const writer = new ByteWriter(16 + bytes.length + (metadata?.length ?? 0)).u8(codec | flags);
  if (isSized(codec)) writer.varint(originalLength);
  if (metadata !== undefined) writer.varint(metadata.length).append(metadata);
  return writer.append(bytes).finish();
}

/** @throws {ProtocolError} `truncated`, `bad_varint` for a record that is damaged. */
export function decodeRecord(record: Uint8Array): RecordedBody {
  const first = record[0] ?? 0;
  const codec = (first & CODEC) as BodyCodec;
  const reader = new ByteReader(record, 1);
  const stated = isSized(codec) ? reader.varint('the length of a part') : undefined;
  const metadata =
    (first & METADATA) === 0 ? undefined : reader.take(reader.varint('the length of metadata'), 'metadata');
  const bytes = reader.rest();
  // The length that token IDs stand for is only counted in statistics.
  return {
    codec,
    bytes,
    originalLength: stated ?? bytes.length,
    secret: (first & SECRET) !== 0,
    metadata,
  };
}

/** The metadata of a recorded part. */
export function metadataOf(record: Uint8Array): Uint8Array | undefined {
  return ((record[0] ?? 0) & METADATA) === 0 ? undefined : decodeRecord(record).metadata;
}

/** Whether a recorded part consists of token IDs. */
export function isTokens(record: Uint8Array): boolean {
  return ((record[0] ?? 0) & CODEC) === BodyCodec.TOKEN_NATIVE;
}
