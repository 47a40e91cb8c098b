import { isDeepStrictEqual } from 'node:util';
import { measureAuto } from './codecs/auto.js';
import { measureBombs } from './codecs/bombs.js';
import { chatRequests, chatTraffic, createProse, type Sample } from './codecs/messages.js';
import { BROTLI_NAME, createMethods, JSON_NAME, type Method } from './codecs/methods.js';
import { decodeM2M, encodeM2M, loadEncoding, readM2MHeader } from './codecs/subject.js';
import { timeInTurns } from './codecs/timing.js';
import { atLeast, atMost, type BenchOptions, compare, type Row } from './row.js';

/** Bytes of a request's JSON, and the number of different requests that are coded in turn. */
const SIZES = [
  { label: '300B', size: 300, count: 32 },
  { label: '1KB', size: 1024, count: 32 },
  { label: '10KB', size: 10 * 1024, count: 8 },
  { label: '100KB', size: 100 * 1024, count: 2 },
];
const TURNS = 40;

/**
 * Size and time of chat requests in each codec. Every message is coded many times, so the tokenizer's caches
 * are warm; the `tokenizer` bench measures fresh text.
 */
export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const rounds = quick ? 9 : 41;
  const encoding = await loadEncoding('CL100K_BASE');
  const methods = createMethods(encoding);
  for (const { label, size, count } of SIZES) {
    const samples = chatRequests(size, count);
    yield* measureMethods(methods, samples, label, rounds);
    if (label === '10KB') yield measureHeader(samples, label, rounds);
  }
  yield* measureAuto(encoding, chatTraffic(createProse(), TURNS), quick ? 5 : 15);
  yield* measureBombs(quick ? 3 : 9);
}

/** All methods against JSON and Brotli: bytes, encode and decode time, on average over the messages. */
function* measureMethods(
  methods: readonly Method[],
  samples: readonly Sample[],
  label: string,
  rounds: number,
): Generator<Row> {
  const able = methods.filter((method) => carriesAll(method, samples, label));
  const coded = new Map(able.map((method) => [method, samples.map((sample) => method.encode(sample))]));
  const encode = new Map(
    able.map(({ name, encode }) => [
      name,
      () => {
        for (const sample of samples) encode(sample);
      },
    ]),
  );
  const decode = new Map(
    able.map((method) => [
      method.name,
      () => {
        for (const one of coded.get(method) ?? []) method.decode(one);
      },
    ]),
  );
  const encodeTimes = timeInTurns(encode, rounds);
  const decodeTimes = timeInTurns(decode, rounds);
  const sizes = new Map(
    able.map((method) => [
      method.name,
      (coded.get(method) ?? []).reduce<number>((sum, one) => sum + method.size(one), 0),
    ]),
  );

  const each = (figures: ReadonlyMap<string, number>, name: string) =>
    (figures.get(name) ?? Number.NaN) / samples.length;
  const against = (figures: ReadonlyMap<string, number>, name: string) => ({
    name,
    value: each(figures, name),
  });
  for (const { name } of able) {
    const target = name === 'M2M v1' && label === '10KB' ? atMost(1.15) : undefined;
    yield compare(`${name} ${label}`, 'B', 'lower', each(sizes, name), against(sizes, JSON_NAME));
    for (const baseline of [BROTLI_NAME, JSON_NAME]) {
      const isTarget = baseline === BROTLI_NAME;
      yield compare(
        `${name} ${label} encode`,
        'us',
        'lower',
        each(encodeTimes, name),
        against(encodeTimes, baseline),
        isTarget ? target : undefined,
      );
    }
    for (const baseline of [BROTLI_NAME, JSON_NAME]) {
      yield compare(
        `${name} ${label} decode`,
        'us',
        'lower',
        each(decodeTimes, name),
        against(decodeTimes, baseline),
      );
    }
  }
}

/** Skips a method that cannot carry a message; a method that changes one is a fault. */
function carriesAll(method: Method, samples: readonly Sample[], label: string): boolean {
  for (const sample of samples) {
    let coded: unknown;
    try {
      coded = method.encode(sample);
    } catch (error) {
      console.error(`${method.name} ${label} left out: ${(error as Error).message}`);
      return false;
    }
    const back = method.decode(coded);
    const value: unknown = typeof back === 'string' ? JSON.parse(back) : back;
    // T1 writes out defaults, so the decoded message may have more fields than the original.
    if (!isDeepStrictEqual({ ...(value as object), ...sample.value }, value)) {
      throw new Error(`${method.name} ${label} changes a message`);
    }
  }
  return true;
}

/** Time to read the header of a message without unpacking it, as a router does. */
function measureHeader(samples: readonly Sample[], label: string, rounds: number): Row {
  const frames = samples.map(({ text }) => encodeM2M(text));
  const times = timeInTurns(
    new Map([
      ['header', () => frames.forEach((frame) => void readM2MHeader(frame))],
      ['whole', () => frames.forEach((frame) => void decodeM2M(frame))],
    ]),
    rounds,
  );
  const rate = (name: 'header' | 'whole') => (frames.length / (times.get(name) ?? Number.NaN)) * 1e6;
  const whole = { name: 'decodeM2M', value: rate('whole') };
  return compare(`readM2MHeader ${label}`, '1/s', 'higher', rate('header'), whole, atLeast(20));
}
