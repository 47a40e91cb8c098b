import type { Random } from './random.js';

/** Makes inputs from other inputs, with the kinds of damage that break parsers. */

export interface MutateOptions {
  /** Building blocks of the format. */
  readonly tokens: readonly Uint8Array[];
  /** Another input of the same target, for splicing. */
  readonly other: Uint8Array;
  /** Longer results are cut. */
  readonly maxLength: number;
}

type Mutation = (input: Uint8Array, random: Random, options: MutateOptions) => Uint8Array;

const MAX_STACKED = 6;
const BYTES = [0x00, 0x01, 0x7f, 0x80, 0xff, 0x22, 0x30, 0x5b, 0x7b];
const NUMBERS = [
  0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff,
];
/** Edge cases of LEB128: 2^32 - 1, 2^32, 2^64 - 1, overlong zero, unterminated. */
const VARINTS = [
  'ffffffff0f',
  '8080808010',
  'ffffffffffffffffff01',
  '8000',
  '808080808000',
  'ffffffffff',
  '80',
].map((hex) => new Uint8Array(Buffer.from(hex, 'hex')));

/** Applies one or a few mutations. */
export function mutate(input: Uint8Array, random: Random, options: MutateOptions): Uint8Array {
  let result = input;
  for (let i = random.below(random.below(MAX_STACKED) + 1); i >= 0; i--) {
    result = random.pick(MUTATIONS)(result, random, options);
    if (result.length > options.maxLength) result = result.slice(0, options.maxLength);
  }
  return result;
}

const flipBit: Mutation = (input, random) =>
  edited(input, random, (bytes, at) => {
    bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
  });

const setByte: Mutation = (input, random) =>
  edited(input, random, (bytes, at) => {
    bytes[at] = random.below(2) === 0 ? random.pick(BYTES) : random.below(256);
  });

const addToByte: Mutation = (input, random) =>
  edited(input, random, (bytes, at) => {
    bytes[at] = (bytes[at] as number) + random.below(9) - 4;
  });

/** Sets a field of 2 or 4 bytes, in either byte order, to an extreme or near the length of the input. */
const setNumber: Mutation = (input, random) => {
  const width = random.pick([2, 4, 8]);
  if (input.length < width) return input;
  const bytes = input.slice();
  const view = new DataView(bytes.buffer);
  const at = random.below(input.length - width + 1);
  const value = random.below(3) === 0 ? input.length - random.below(input.length + 2) : random.pick(NUMBERS);
  const isLittle = random.below(3) > 0;
  if (width === 2) view.setUint16(at, value & 0xffff, isLittle);
  else if (width === 4) view.setUint32(at, value >>> 0, isLittle);
  else view.setBigUint64(at, BigInt(value >>> 0) << BigInt(random.below(33)), isLittle);
  return bytes;
};

const insertVarint: Mutation = (input, random) =>
  spliced(input, random, random.pick(VARINTS), random.below(3));

const insertToken: Mutation = (input, random, { tokens }) =>
  tokens.length === 0
    ? setByte(input, random, NOTHING)
    : spliced(input, random, random.pick(tokens), random.below(4));

const truncate: Mutation = (input, random) => input.slice(0, random.below(input.length + 1));

const cutOut: Mutation = (input, random) => {
  const from = random.below(input.length + 1);
  const to = Math.min(input.length, from + 1 + random.below(16));
  return concat(input.slice(0, from), input.slice(to));
};

const duplicate: Mutation = (input, random) => {
  const from = random.below(input.length + 1);
  const piece = input.slice(from, from + 1 + random.below(32));
  return spliced(input, random, piece, 0);
};

/** Repeats one piece many times: nesting, and counts that do not fit. */
const repeat: Mutation = (input, random, { tokens }) => {
  const from = random.below(input.length + 1);
  const own = input.slice(from, from + 1 + random.below(4));
  const piece = tokens.length > 0 && random.below(2) === 0 ? random.pick(tokens) : own;
  const times = 1 << random.below(9);
  return spliced(input, random, concat(...new Array<Uint8Array>(times).fill(piece)), 0);
};

const splice: Mutation = (input, random, { other }) =>
  concat(input.slice(0, random.below(input.length + 1)), other.slice(random.below(other.length + 1)));

const insertBytes: Mutation = (input, random) =>
  spliced(
    input,
    random,
    Uint8Array.from({ length: 1 + random.below(4) }, () => random.below(256)),
    0,
  );

const MUTATIONS: readonly Mutation[] = [
  ...[flipBit, flipBit, setByte, addToByte, setNumber, setNumber],
  ...[insertVarint, insertToken, insertToken, insertBytes],
  ...[truncate, cutOut, duplicate, repeat, splice],
];

const NOTHING: MutateOptions = { tokens: [], other: new Uint8Array(0), maxLength: 0 };

function edited(
  input: Uint8Array,
  random: Random,
  edit: (bytes: Uint8Array, at: number) => void,
): Uint8Array {
  if (input.length === 0) return Uint8Array.of(random.below(256));
  const bytes = input.slice();
  edit(bytes, random.below(bytes.length));
  return bytes;
}

/** Inserts `piece` at a random place in `input` and removes `removed` bytes there. */
function spliced(input: Uint8Array, random: Random, piece: Uint8Array, removed: number): Uint8Array {
  const at = random.below(input.length + 1);
  return concat(input.slice(0, at), piece, input.slice(at + removed));
}

function concat(...parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
