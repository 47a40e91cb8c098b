import { randomBytes } from 'node:crypto';
import { brotliCompressSync, constants, crc32 } from 'node:zlib';
import { BodyCodec, encodeAvp, encodeM2MBody, loadCodecs } from '@parlance/protocol';
import { type FrameParts, varint } from './wire.js';

/** Bodies that are small on the wire and large when decoded. */

export const MIB = 1024 * 1024;
/** The largest message within the default limits. */
export const LARGEST = 16 * MIB;

export interface Bomb {
  readonly body: Uint8Array;
  readonly parts: FrameParts;
}

export function brotli(text: string | Uint8Array): Bomb {
  const bytes = Buffer.from(text as string);
  const body = brotliCompressSync(bytes, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_LGWIN]: 22 },
  });
  return { body, parts: { codec: BodyCodec.BROTLI, original: bytes.length } };
}

/** Made on first use: most attacks need one of them. */
const made = new Map<string, Bomb>();
function once(name: string, make: () => Bomb): () => Bomb {
  return () => {
    const bomb = made.get(name) ?? make();
    made.set(name, bomb);
    return bomb;
  };
}

/** This many blanks, in a dozen bytes. */
export const brotliOf = (size: number) => once(`blanks ${size}`, () => brotli(Buffer.alloc(size, ' ')))();

/** Text about 90 times as long as its Brotli form: nearly the most that a limit of 100 may let through. */
export const repetitive = (size: number) =>
  once(`repetitive ${size}`, () => {
    const line = (i: number) =>
      `${((i * 2_654_435_761) >>> 0).toString(36)} is what line ${i} says. ${'ha '.repeat(160)}\n`;
    let text = '';
    for (let i = 0; text.length < size; i++) text += line(i);
    return brotli(text.slice(0, size));
  })();

/** CRC-32, little-endian. */
export const checksum = (bytes: Uint8Array): number[] => littleEndian(crc32(bytes), 4);

/** 14 bytes for 16 MiB of blanks. */
export const blanks = once('blanks', () => brotli(Buffer.alloc(LARGEST, ' ')));
/** A tokenizer must process all of it. */
export const words = once('words', () => brotli(Buffer.alloc(LARGEST, 'a ')));
export const m2m = once('m2m', () => {
  const text = ' '.repeat(LARGEST);
  return {
    body: encodeM2MBody(text, { schema: 'custom' }),
    parts: { codec: BodyCodec.M2M, original: LARGEST },
  };
});

/** Chat JSON in which every abbreviation expands. */
export const abbreviated = once('abbreviated', () => {
  const messages = Array.from({ length: 900 }, () => ({ r: 'u', c: '' }));
  const body = Buffer.from(JSON.stringify({ M: '4o', m: messages }));
  return { body, parts: { codec: BodyCodec.TOKEN, original: LARGEST } };
});

/** A context body without a base, with one zstd frame of run-length blocks in the middle. */
export const context = once('context', () => {
  const head = [...varint(1), ...checksum(Buffer.alloc(LARGEST, ' '))];
  return {
    body: Buffer.concat([Uint8Array.from(head), zstdRun(LARGEST, 0x20)]),
    parts: { codec: BodyCodec.CONTEXT },
  };
});

/** One zstd frame of `size` equal bytes: four bytes for each 128 KiB (RFC 8878). */
function zstdRun(size: number, byte: number): Uint8Array {
  const block = 128 * 1024;
  const frame = [0x28, 0xb5, 0x2f, 0xfd, 0xa0, ...littleEndian(size, 4)];
  for (let at = 0; at < size; at += block) {
    const length = Math.min(block, size - at);
    const isLast = at + length === size;
    frame.push(...littleEndian(length * 8 + 2 + (isLast ? 1 : 0), 3), byte);
  }
  return Uint8Array.from(frame);
}

function littleEndian(value: number, bytes: number): number[] {
  return Array.from({ length: bytes }, (_, i) => Math.floor(value / 2 ** (8 * i)) & 0xff);
}

/** A compressed tensor of zeros. */
export async function compressedTensor(size: number): Promise<Bomb> {
  await loadCodecs(['AVP']);
  const key = `tensor ${size}`;
  return once(key, () => ({
    body: encodeAvp(
      { data: new Uint8Array(size), shape: [size], dtype: 'int8', payloadType: 'hidden_state' },
      { compression: 'balanced' },
    ),
    parts: { codec: BodyCodec.AVP },
  }))();
}

export function plainTensor(size: number): Bomb {
  return once(`plain ${size}`, () => ({
    body: encodeAvp({
      data: new Uint8Array(size).fill(3),
      shape: [size],
      dtype: 'int8',
      payloadType: 'hidden_state',
    }),
    parts: { codec: BodyCodec.AVP },
  }))();
}

/** A small tensor with large metadata. */
export function tensorWithExtra(entries: number): Bomb {
  return once(`extra ${entries}`, () => ({
    body: encodeAvp({
      data: new Uint8Array(1),
      shape: [1],
      dtype: 'int8',
      payloadType: 'hidden_state',
      metadata: { extra: new Map(Array.from({ length: entries }, (_, i) => [i.toString(36), ''])) },
    }),
    parts: { codec: BodyCodec.AVP },
  }))();
}

// --- JSON that takes long to parse

/** 16 MiB in 98 bytes: `"x":[[{},{},…],…]`, within every limit of depth and of one array. */
export const braces = once('braces', () => {
  const row = `[${'{},'.repeat(9_999)}{}]`;
  const rows = Math.floor((LARGEST - 64) / (row.length + 1));
  return brotli(`{"model":"gpt-4o","x":[${`${row},`.repeat(rows - 1)}${row}]}`);
});
/** Objects that take 8 MiB, which is what a value may take that was hardly paid for. */
export const admittedBraces = once('admitted', () => brotli(`[${'{},'.repeat(130_000)}{}]`));
/** As many levels as are admitted. */
export const admittedLevels = once('levels', () => brotli(`${'['.repeat(2_000)}${']'.repeat(2_000)}`));
export const blankedJson = once('blanked', () => brotli(`{"model":"gpt-4o"${' '.repeat(LARGEST - 64)}}`));
/** The same key again and again: different keys do not compress, so they make no bomb. */
export const manyKeys = once('keys', () => brotli(`{"model":"gpt-4o",${'"x":0,'.repeat(2_700_000)}"y":0}`));
export const escapes = once('escapes', () =>
  brotli(`{"model":"gpt-4o","x":"${'\\u0020'.repeat(1_600_000)}"}`),
);

// --- forms that take long to parse

/** The boundary of all of them. */
export const BOUNDARY = 'b'.repeat(69);
const FIELD = `--${BOUNDARY}\r\ncontent-disposition: form-data; name="a"\r\n\r\n`;
const FORM_END = `--${BOUNDARY}--\r\n`;

/** 16 MiB, 85 times as long as its Brotli form: nothing compresses what it ends with. */
function filled(head: string, piece: string, end: string): Bomb {
  const noise = randomBytes(LARGEST / 85)
    .toString('latin1')
    .replaceAll(/[-&%\r\n]/g, 'x');
  const times = Math.floor((LARGEST - head.length - end.length - noise.length) / piece.length);
  return brotli(Buffer.from(head + piece.repeat(times) + noise + end, 'latin1'));
}

/** 150,000 fields. */
export const manyFields = once('fields', () => filled('', `${FIELD}\r\n`, `\r\n${FORM_END}`));
/** As many files, for each of which a parser makes an object. */
export const manyFiles = once('files', () =>
  filled('', `${FIELD.replace('"a"', '"a"; filename="a"')}\r\n`, `\r\n${FORM_END}`),
);
/** One name of 16 MiB, of escapes. */
export const longName = once('name', () => {
  const head = `--${BOUNDARY}\r\ncontent-disposition: form-data; name="`;
  return filled(head, '%22', `"\r\n\r\n\r\n${FORM_END}`);
});
/** Content that is a delimiter but for its last byte, again and again, and no end. */
export const nearlyEnded = once('ends', () => filled(FIELD, `\r\n--${BOUNDARY.slice(1)}`, ''));
/** Dashes alone: each may begin a delimiter. */
export const dashes = once('dashes', () => filled(FIELD, '-', ''));
/** Eight million pairs of a form that is URL-encoded. */
export const manyPairs = once('pairs', () => filled('', 'a&', ''));
