import { type Encoding, loadEncoding } from '@parlance/protocol';
import { startChild } from '../../scripts/child-process.js';
import { atLeast, atMost, type BenchOptions, compare, type Row } from './row.js';
import { median } from './statistics.js';
import type { ColdCommands, ColdStart } from './tokenizer/cold-process.js';
import {
  type BenchEncoding,
  type Contestant,
  type ContestantName,
  ENCODINGS,
  OURS,
  PEERS,
  prepare,
} from './tokenizer/contestants.js';
import { type Corpus, loadCorpora, MAX_ROUNDS } from './tokenizer/corpora.js';
import { WORST_CASES } from './tokenizer/worst-cases.js';

/**
 * The tokenizer against three others: in one process, in turns, on texts that none of them has seen; then the
 * start of each in a process of its own; then ours on worst-case texts.
 */

const ALL: readonly ContestantName[] = [OURS, ...PEERS];
const COLD_PROCESS = new URL('./tokenizer/cold-process.ts', import.meta.url);
/** Rounds in which the JIT compiler sees all kinds of text. */
const WARM_UP_ROUNDS = 4;
/** Small messages at the start of a process. */
const FIRST_MESSAGES = 20;

/** The speed-up over each of them that is aimed at. */
const FASTER: Readonly<Record<(typeof PEERS)[number], number>> = {
  'js-tiktoken': 10,
  tiktoken: 4,
  'gpt-tokenizer': 2.5,
};
const FASTER_CJK: typeof FASTER = { 'js-tiktoken': 20, tiktoken: 2, 'gpt-tokenizer': 1 };

type CheckOrNone = Parameters<typeof compare>[5];

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  for (const encoding of Object.keys(ENCODINGS) as BenchEncoding[]) {
    const contestants = new Map<ContestantName, Contestant>();
    for (const name of ALL) contestants.set(name, await (await prepare(name, encoding))());
    const corpora = loadCorpora();
    for (const corpus of corpora) {
      for (let round = 0; round < WARM_UP_ROUNDS; round++) runRound(corpus.round(), contestants, round);
    }
    const rounds = quick ? 7 : MAX_ROUNDS - WARM_UP_ROUNDS;
    for (const corpus of corpora) yield* measureCorpus(encoding, corpus, contestants, rounds);
    yield* await measureColdStart(encoding, quick ? 3 : 9);
  }
  for (const encoding of Object.keys(ENCODINGS) as BenchEncoding[]) {
    yield* measureWorstCases(await loadEncoding(encoding), quick ? 2 : 5);
  }
}

type Contestants = ReadonlyMap<ContestantName, Contestant>;

/** Milliseconds of each contestant in one round. */
type RoundTimes = ReadonlyMap<ContestantName, { readonly encodeMs: number; readonly decodeMs: number }>;

/** Lets all contestants encode and decode the same texts; the order rotates with every round. */
function runRound(texts: readonly string[], contestants: Contestants, round: number): RoundTimes {
  const times = new Map<ContestantName, { encodeMs: number; decodeMs: number }>();
  const ids = new Map<ContestantName, ArrayLike<number>[]>();
  for (let turn = 0; turn < ALL.length; turn++) {
    const name = ALL[(turn + round) % ALL.length] as ContestantName;
    const contestant = contestants.get(name) as Contestant;
    const start = performance.now();
    const found = texts.map((text) => contestant.encode(text));
    const middle = performance.now();
    for (const each of found) contestant.decode(each);
    times.set(name, { encodeMs: middle - start, decodeMs: performance.now() - middle });
    ids.set(name, found);
  }
  assertEqual(ids.get(OURS) ?? [], ids.get('tiktoken') ?? [], texts);
  return times;
}

/** Megabytes of UTF-8 per second, in both directions. */
function* measureCorpus(
  encoding: BenchEncoding,
  corpus: Corpus,
  contestants: Contestants,
  rounds: number,
): Generator<Row> {
  const encoded = new Map<ContestantName, number[]>(ALL.map((name) => [name, []]));
  const decoded = new Map<ContestantName, number[]>(ALL.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    const texts = corpus.round();
    const kilobytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0) / 1e3;
    for (const [name, { encodeMs, decodeMs }] of runRound(texts, contestants, round)) {
      encoded.get(name)?.push(kilobytes / encodeMs);
      decoded.get(name)?.push(kilobytes / decodeMs);
    }
  }
  const figure = (of: typeof encoded, name: ContestantName) => ({ name, value: median(of.get(name) ?? []) });
  const targets = corpus.name === 'cjk-emoji' ? FASTER_CJK : FASTER;
  for (const peer of PEERS) {
    const name = `${encoding} ${corpus.name} encode`;
    yield compare(
      name,
      'MB/s',
      'higher',
      figure(encoded, OURS).value,
      figure(encoded, peer),
      atLeast(targets[peer]),
    );
  }
  for (const peer of PEERS) {
    const name = `${encoding} ${corpus.name} decode`;
    yield compare(name, 'MB/s', 'higher', figure(decoded, OURS).value, figure(decoded, peer));
  }
}

/** `tiktoken` is the reference: a fast tokenizer with other IDs would be useless. */
function assertEqual(
  ours: readonly ArrayLike<number>[],
  theirs: readonly ArrayLike<number>[],
  texts: readonly string[],
) {
  for (const [i, text] of texts.entries()) {
    const [found, expected] = [Array.from(ours[i] ?? []), Array.from(theirs[i] ?? [])];
    if (found.length !== expected.length || found.some((id, k) => id !== expected[k])) {
      throw new Error(`IDs differ from tiktoken's for ${JSON.stringify(text.slice(0, 200))}`);
    }
  }
}

async function measureColdStart(encoding: BenchEncoding, samples: number): Promise<Row[]> {
  const [smallChat] = loadCorpora() as [Corpus];
  const texts = smallChat.round().slice(0, FIRST_MESSAGES);
  const starts = new Map<ContestantName, ColdStart[]>(ALL.map((name) => [name, []]));
  for (let sample = 0; sample < samples; sample++) {
    for (const name of ALL) {
      const child = startChild<ColdCommands>(COLD_PROCESS, [name, encoding], ['--expose-gc']);
      starts.get(name)?.push(await child.call('run', texts));
      child.stop();
    }
  }
  const figure = (name: ContestantName, key: keyof ColdStart) => ({
    name,
    value: median((starts.get(name) ?? []).map((start) => start[key])),
  });
  const rows = (
    what: string,
    unit: string,
    key: keyof ColdStart,
    target: (peer: ContestantName) => CheckOrNone,
  ) =>
    PEERS.map((peer) =>
      compare(`${encoding} ${what}`, unit, 'lower', figure(OURS, key).value, figure(peer, key), target(peer)),
    );
  const aThird = (peer: ContestantName) =>
    peer === 'js-tiktoken' ? (ratio: number) => ({ text: '<= 1/3', met: ratio <= 1 / 3 }) : undefined;
  return [
    ...rows('cold first message', 'ms', 'firstMs', aThird),
    ...rows(`cold first ${FIRST_MESSAGES} messages`, 'ms', 'allMs', aThird),
    ...rows('load', 'ms', 'loadMs', () => atMost(1)),
    ...rows('memory', 'MB', 'memoryMB', () => atMost(1)),
    ...rows('memory resident', 'MB', 'residentMB', () => atMost(1)),
  ];
}

/**
 * Compares a megabyte to a tenth of a second, its growth to 15 times, and the longest slice to 50 ms. The best of a few
 * tries counts, because the question is how much work there is, not how busy the machine was.
 */
function* measureWorstCases(encoding: Encoding, samples: number): Generator<Row> {
  let longestSlice = 0;
  for (const [what, make] of Object.entries(WORST_CASES)) {
    const [small, large] = [make(100_000), make(1_000_000)];
    encoding.encode(small);
    const smallMs = bestTime(encoding, small, samples * 3);
    const largeMs = bestTime(encoding, large, samples);
    longestSlice = Math.max(longestSlice, longestSliceOf(encoding, large, samples));
    const name = `${encoding.name} 1 MB of ${what}`;
    yield compare(name, 'ms', 'lower', largeMs, { name: '0.1 s', value: 100 }, atMost(1));
    const growth = { name: '15 x 100 KB', value: 15 * smallMs };
    yield compare(name, 'ms', 'lower', largeMs, growth, atMost(1));
  }
  const slice = { name: '50 ms', value: 50 };
  yield compare(`${encoding.name} longest slice of these`, 'ms', 'lower', longestSlice, slice, atMost(1));
}

function bestTime(encoding: Encoding, text: string, samples: number): number {
  let best = Number.POSITIVE_INFINITY;
  for (let sample = 0; sample < samples; sample++) {
    const start = performance.now();
    encoding.encode(text);
    best = Math.min(best, performance.now() - start);
  }
  return best;
}

/**
 * The longest slice, each at its best of several runs; the first slice also encodes the whole text as UTF-8.
 */
function longestSliceOf(encoding: Encoding, text: string, samples: number): number {
  const best: number[] = [];
  for (let sample = 0; sample < samples; sample++) {
    let before = performance.now();
    let slice = 0;
    for (const _ of encoding.encodeSlices(text)) {
      const now = performance.now();
      best[slice] = Math.min(best[slice] ?? Number.POSITIVE_INFINITY, now - before);
      before = now;
      slice++;
    }
  }
  return Math.max(...best);
}
