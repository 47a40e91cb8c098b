import { readFileSync } from 'node:fs';
import { beforeAll, describe, it } from 'vitest';
import {
  type ConstructedCase,
  checkConstructed,
  checkDecode,
  checkEncode,
  checkNegative,
  checkSecure,
  type DecodeCase,
  type EncodeCase,
  type NegativeCase,
  type SecureCase,
} from '../testing/m2m-vectors.js';
import { loadOn, type UnderTest } from '../testing/on-platform.js';

const read = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../../../conformance/vectors/${name}`, import.meta.url), 'utf8'));

const frames = read('m2m-frame.json') as {
  encode: EncodeCase[];
  decode: DecodeCase[];
  constructed: ConstructedCase[];
};
const secure = read('m2m-secure.json') as {
  positive: SecureCase[];
  key_length: SecureCase[];
  negative: NegativeCase[];
};

describe.each(['node', 'web'] as const)('M2M v1 vectors on %s', (name) => {
  let codec: UnderTest;
  beforeAll(async () => {
    codec = await loadOn(name);
  });

  it.each(frames.encode)('encode $name: $verdict', (vector) => checkEncode(codec, vector));
  it.each(frames.decode)('decode $name: $verdict', (vector) => checkDecode(codec, vector));
  it.each(frames.constructed)('constructed $name', (vector) => checkConstructed(codec, vector));
  it.each(secure.positive)('secure $name: $verdict', (vector) => checkSecure(codec, vector));
  it.each(secure.key_length)('key $name: $verdict', (vector) => checkSecure(codec, vector));
  it.each(secure.negative)('negative $name: $verdict', (vector) => checkNegative(codec, vector));
});
