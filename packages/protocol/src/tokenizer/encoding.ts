import type { ByteWriter } from '../base/bytes.js';
import { ENCODING_IDS, type EncodingName } from '../base/constants.js';
import { assertWellFormed, utf8Length } from '../base/text.js';
import { type DecodeOptions, TokenDecoder } from './decode.js';
import { TokenEncoder } from './encode.js';
import { createJob, type EncodeJob } from './job.js';
import { createScanner } from './scanner.js';
import { MAX_SHORT } from './short-key.js';
import { createStreamDecoder, type StreamDecodeOptions, type StreamDecoder } from './stream-decoder.js';
import type { TokenTable } from './token-table.js';
import { encodeTokenIds } from './varints.js';
import type { Vocabulary } from './vocabulary.js';

/**
 * A loaded vocabulary. Text is always encoded as ordinary text: the name of a special token becomes the
 * tokens of its characters. Encoding throws only `lone_surrogate`, for text that has no UTF-8 form; `decode`
 * returns every other string unchanged.
 */
export interface Encoding {
  readonly name: EncodingName;
  /** The tokenizer byte on the wire: 0, 1 or 2. */
  readonly id: number;
  /** SHA-256 of the vocabulary's `.tiktoken` file, in hexadecimal. */
  readonly hash: string;
  /** One more than the largest ID, special tokens and holes included. */
  readonly size: number;

  encode(text: string): Uint32Array;

  /** The number of tokens that `encode` returns. */
  count(text: string): number;

  /**
   * Encodes a long text in slices, so that other work can run in between. After each slice it yields the
   * number of bytes done so far; at the end it returns the result of `encode`. Any number of texts may be in
   * progress at once.
   *
   * @param sliceBytes approximate UTF-8 bytes per slice; 16 KiB take 1 to 3 ms at worst. @default 16 KiB
   */
  encodeSlices(text: string, sliceBytes?: number): Generator<number, Uint32Array, void>;

  /**
   * Encodes to varints, in a buffer of exactly their length.
   *
   * @param headroom number of zero bytes to leave at the start, for the caller's header. @default 0
   */
  encodeVarints(text: string, headroom?: number): Uint8Array<ArrayBuffer>;

  /** Appends varints to `writer` and returns the number of tokens. */
  encodeInto(text: string, writer: ByteWriter): number;

  /**
   * @throws {ProtocolError} `bad_token` for an ID that the vocabulary does not have, or that is
   * special; `bad_utf8`; `decompressed_too_large`.
   */
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;

  /**
   * Like `decode`, but accepts bytes that are not valid UTF-8.
   *
   * @throws {ProtocolError} `bad_token`, `decompressed_too_large`.
   */
  decodeBytes(ids: ArrayLike<number>, options?: DecodeOptions): Uint8Array<ArrayBuffer>;

  /**
   * The number of bytes that `decodeBytes` returns for `ids`, without decoding them.
   *
   * @throws {ProtocolError} `bad_token`, `decompressed_too_large`.
   */
  byteLength(ids: ArrayLike<number>, options?: DecodeOptions): number;

  /** A decoder for tokens that arrive in pieces. */
  createDecoder(options?: StreamDecodeOptions): StreamDecoder;
}

/** Reused for texts that fit; calls that use these buffers are never interrupted. */
const TEXT_SCRATCH = new Uint8Array(1 << 16);
const TEXT_VIEW = new DataView(TEXT_SCRATCH.buffer);
const ID_SCRATCH = new Uint32Array(1 << 14);
const DEFAULT_SLICE = 1 << 14;
const WARM_UP_TEXTS = 10;
const WARM_UP_LENGTH = 300;
/** Up to this many IDs are copied one by one. */
const FEW = 512;

const utf8 = new TextEncoder();

export function createEncoding(vocabulary: Vocabulary, table: TokenTable): Encoding {
  const scan = createScanner(vocabulary.pattern, vocabulary.reading);
  const { ordinary: limit, mergeable } = vocabulary;
  const encoder = new TokenEncoder(table, scan, { limit, mergeable });
  const decoder = new TokenDecoder(vocabulary, table);

  function encodeAll(text: string): EncodeJob {
    assertWellFormed(text);
    const job = begin(text);
    encoder.run(job, Number.POSITIVE_INFINITY);
    return job;
  }

  for (const text of warmUpTexts(table)) encodeAll(text);

  return {
    name: vocabulary.name,
    id: ENCODING_IDS[vocabulary.name],
    hash: vocabulary.hash,
    size: vocabulary.size,

    encode(text) {
      const { ids, count } = encodeAll(text);
      return copyOf(ids, count);
    },

    count: (text) => encodeAll(text).count,

    *encodeSlices(text, sliceBytes = DEFAULT_SLICE) {
      assertWellFormed(text);
      const job = beginLong(text);
      while (job.at < job.length) {
        encoder.run(job, sliceBytes);
        yield job.at;
      }
      return copyOf(job.ids, job.count);
    },

    encodeVarints(text, headroom = 0) {
      const { ids, count } = encodeAll(text);
      return encodeTokenIds(ids, count, headroom);
    },

    encodeInto(text, writer) {
      const { ids, count } = encodeAll(text);
      writer.append(encodeTokenIds(ids, count));
      return count;
    },

    decode: (ids, options) => decoder.text(ids, options),
    decodeBytes: (ids, options) => decoder.bytes(ids, options),
    byteLength: (ids, options) => decoder.length(ids, options),
    createDecoder: (options) => createStreamDecoder(decoder, options),
  };
}

/**
 * The first ASCII tokens, which are the most frequent, in texts of the size of a small message. Encoding them
 * while the vocabulary loads takes 3 ms. Afterwards the runtime has compiled the encoder and the cache holds
 * the tokens of most messages, so the first messages pay for neither.
 */
function warmUpTexts({ bytes, offsets }: TokenTable): string[] {
  const texts: string[] = [];
  let text = '';
  for (let id = 256; texts.length < WARM_UP_TEXTS; id++) {
    const token = bytes.subarray(offsets[id] as number, offsets[id + 1] as number);
    if (token.every((byte) => byte < 0x80)) text += String.fromCharCode(...token);
    if (text.length < WARM_UP_LENGTH) continue;
    texts.push(text);
    text = '';
  }
  return texts;
}

/** `ids.slice(0, count)`, but faster: `slice` takes a microsecond even for a handful. */
function copyOf(ids: Uint32Array, count: number): Uint32Array {
  const copy = new Uint32Array(count);
  if (count > FEW) copy.set(ids.subarray(0, count));
  else for (let i = 0; i < count; i++) copy[i] = ids[i] as number;
  return copy;
}

function begin(text: string): EncodeJob {
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 + MAX_SHORT > TEXT_SCRATCH.length) return beginLong(text);
  return createJob(TEXT_SCRATCH, TEXT_VIEW, utf8.encodeInto(text, TEXT_SCRATCH).written, ID_SCRATCH);
}

/** A job with buffers of its own. */
function beginLong(text: string): EncodeJob {
  const bytes = new Uint8Array(utf8Length(text) + MAX_SHORT);
  const { written } = utf8.encodeInto(text, bytes);
  return createJob(bytes, new DataView(bytes.buffer), written, new Uint32Array(Math.ceil(written / 3)));
}
