import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { ProtocolError } from '@parlance/protocol';

/**
 * The offers of client and server never change within a record, and are mostly the same in all records. Deflate takes
 * them from this dictionary, so it must not change as long as there are records that were written with it.
 */
const DICTIONARY = Buffer.from(
  [
    '"O200K_BASE":"446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"}',
    '{"CL100K_BASE":"223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",',
    '\u00acvocabularies\u00a7replies\u00a2{}\u00a6agents\u00a2{}\u00a7context\u00d9&{"max_bytes":4194304,"max_messages":8}',
    '\u00a7durable\u00a11\u00a4move\u00a11\u00a6resume\u00a2{}\u00a6rebuild\u00a11\u00a4link\u00d9\\{"max_streams":128,',
    '"message_window":1048576,"stream_window":16384,"max_transfer":1073741824,"messages":false}\u00a9agreement',
    '\u00a3m2m\u00a2id\u00b9sess_\u00a4flat\u00a31.0\u00a3M2M\u00acTOKEN_NATIVE\u00a5TOKEN\u00a4ZSTD\u00a6BROTLI\u00aaDICTIONARY\u00a4NONE',
    '\u00abCL100K_BASE\u00aaO200K_BASE\u00abCL100K_BASE\u00c2\u00ce',
  ].join(''),
  'latin1',
);
const MAX_LENGTH = 1024 * 1024;

export function pack(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(deflateRawSync(bytes, { dictionary: DICTIONARY, level: 9 }));
}

/** @throws {ProtocolError} `bad_message` if it is not what {@link pack} returns. */
export function unpack(bytes: Uint8Array): Uint8Array {
  try {
    return new Uint8Array(inflateRawSync(bytes, { dictionary: DICTIONARY, maxOutputLength: MAX_LENGTH }));
  } catch {
    throw new ProtocolError('bad_message', 'the record of a durable session is damaged');
  }
}
