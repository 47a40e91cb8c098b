import type { Commit, DurableRecord } from '@parlance/protocol/internal';
import { beforeAll, describe, expect, it } from 'vitest';
import { errorCode } from '../../../protocol/src/testing/error-code.js';
import type { TakeOverEngine } from '../../../protocol/src/testing/take-over-engine.js';
import { runTakeOverHistory } from '../../../protocol/src/testing/take-over-history.js';
import { platform } from '../../../protocol/src/testing/this-platform.js';
import type { FieldChanges } from '../engine/engine.js';
import { MemorySessions } from '../engine/memory-sessions.js';
import { Seal } from '../engine/seal/keys.js';
import { RecordSeal } from '../engine/seal/record-seal.js';
import { FieldWriter, goesOn, readFields } from './fields.js';
import { pack } from './packed.js';

const HISTORIES = Number(process.env['TAKE_OVER_HISTORIES'] ?? 40);
const SEED = Number(process.env['TAKE_OVER_SEED'] ?? (process.env['CI'] ? 1 : Date.now() % 2 ** 31));
const ID = 'sess_one';
const TTL_MS = 60_000;
const ALI = 'ali \u00e9\u{1f600}';

const COMMIT: Commit = {
  ...{ number: 1, begin: undefined, accept: undefined, handled: undefined, state: undefined },
  ...{
    messages: [],
    confirmed: undefined,
    streams: new Map(),
    isBehind: undefined,
    ofFormerPages: undefined,
  },
  ...{ opened: [], settled: [], heard: new Map(), saved: new Map() },
};
const FIRST: Commit = {
  ...COMMIT,
  begin: Uint8Array.of(0, 255),
  accept: { tokens: ['aa', 'bb'], attempt: 3 },
};
const STREAM = {
  ...{ attempt: undefined, isRepeatable: false, kept: undefined, from: 0, parts: [], end: undefined },
  isForgotten: false,
};

/** The fields of one session, as an engine has them. */
class Fields {
  readonly #sessions = new MemorySessions(() => 0);
  readonly #writers = new Map<number, FieldWriter>();
  readonly #changes = new WeakMap<Commit, FieldChanges>();
  /** The names of all fields that there ever were. */
  readonly #known = new Set<string>();
  /** By epoch. */
  readonly #seals = new Map<number, RecordSeal>();
  readonly #seal: Seal | undefined;
  epoch = 0;

  constructor(seal?: Seal) {
    this.#seal = seal;
    if (seal !== undefined) this.#seals.set(0, RecordSeal.begin(seal, ID, 0));
  }

  write(epoch: number, commit: Commit): boolean {
    const writer = this.#writers.get(epoch) ?? new FieldWriter(ALI);
    this.#writers.set(epoch, writer);
    const changes = this.#changes.get(commit) ?? this.#sealed(epoch, commit.number, writer.write(commit));
    this.#changes.set(commit, changes);
    for (const name of changes.set.keys()) this.#known.add(name);
    const head = { owner: `node${epoch}`, epoch, number: commit.number, ttlMs: TTL_MS };
    const answer = this.#sessions.write(ID, { ...head, isFirst: commit.begin !== undefined, ...changes });
    return answer === 'written';
  }

  claim(epoch: number): DurableRecord | undefined {
    const move = { from: `node${epoch}`, epoch, to: `node${epoch + 1}`, ttlMs: TTL_MS };
    const claimed = this.#sessions.claim(ID, move);
    if (claimed === undefined) return undefined;
    this.epoch = claimed.epoch;
    const opened = this.#seal && RecordSeal.open(this.#seal, ID, claimed.epoch, claimed.fields);
    if (opened !== undefined) this.#seals.set(claimed.epoch, opened.seal);
    const { record, principal } = readFields(opened?.fields ?? claimed.fields);
    expect(principal).toBe(ALI);
    this.#writers.set(claimed.epoch, new FieldWriter(ALI, record));
    return record;
  }

  /** Those that are there. */
  get names(): string[] {
    return [...this.#all.keys()].sort();
  }

  read(): DurableRecord {
    const all = this.#all;
    return readFields(this.#seal === undefined ? all : RecordSeal.openSome(this.#seal, ID, all)).record;
  }

  #sealed(epoch: number, number: number, changes: FieldChanges): FieldChanges {
    return this.#seals.get(epoch)?.seal(number, changes) ?? changes;
  }

  get #all(): ReadonlyMap<string, Uint8Array> {
    return this.#sessions.read(ID, [...this.#known])?.fields ?? new Map();
  }
}

beforeAll(() => platform.loadZstd());

describe('the record of a durable session as fields', () => {
  it.each([
    ['', undefined],
    ['sealed, ', new Seal(new Uint8Array(32).fill(7))],
  ])(
    `is enough to continue from, %sin ${HISTORIES} histories from seed ${SEED}`,
    { timeout: 3_600_000 },
    (_, key) => {
      for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
        const fields = new Fields(key);
        const engine: TakeOverEngine = {
          get epoch() {
            return fields.epoch;
          },
          claim(epoch) {
            const record = fields.claim(epoch);
            return record && { epoch: epoch + 1, record };
          },
          commit: (epoch, commit) => fields.write(epoch, commit),
          read: () => fields.read(),
        };
        expect(runTakeOverHistory({ seed, engine }).faults, `seed ${seed}`).toEqual([]);
      }
    },
  );

  const written = (...commits: readonly Partial<Commit>[]): Fields => {
    const fields = new Fields();
    fields.write(0, FIRST);
    commits.forEach((commit, i) => {
      expect(fields.write(0, { ...COMMIT, number: i + 2, ...commit })).toBe(true);
    });
    return fields;
  };
  const streamsOf = (...streams: readonly [number, Partial<typeof STREAM> | object][]): Commit['streams'] =>
    new Map(streams.map(([id, stream]) => [id, { ...STREAM, ...stream }]));
  const part = (text: string) => new Uint8Array(Buffer.from(text));

  it('is what was written', () => {
    const fields = written(
      { handled: 4, state: Uint8Array.of(7), messages: [{ number: 1, body: Uint8Array.of(128) }] },
      {
        opened: [2, 3],
        heard: new Map([
          ['sess_a', 5],
          ['sess_b', 8],
        ]),
      },
      {
        settled: [3],
        heard: new Map([
          ['sess_b', 9],
          ['sess_a', 0],
        ]),
      },
      { streams: streamsOf([3, { attempt: 1, isRepeatable: true, parts: [part('a'), part('b')] }]) },
      { streams: streamsOf([3, { from: 2, parts: [part('c')], end: part('why') }]) },
      {
        saved: new Map([
          ['words', part('3')],
          ['state', part('of a part')],
        ]),
      },
      {
        saved: new Map([
          ['words', part('5')],
          ['state', new Uint8Array(0)],
        ]),
      },
    );
    expect(fields.read()).toEqual({
      saved: new Map([['words', part('5')]]),
      ...{ begin: Uint8Array.of(0, 255), accept: { tokens: ['aa', 'bb'], attempt: 3 }, handled: 4 },
      ...{ open: [2], heard: new Map([['sess_b', 9]]) },
      ...{ state: Uint8Array.of(7), said: 1, messages: [{ number: 1, body: Uint8Array.of(128) }] },
      streams: new Map([
        [
          3,
          {
            ...{ attempt: 1, isRepeatable: true, kept: undefined },
            ...{ parts: [part('a'), part('b'), part('c')], end: part('why') },
          },
        ],
      ]),
      ofFormerPages: 0,
      isBehind: false,
    });
  });

  it('says under which ID a reply is kept, and whether its handler continues it', () => {
    const kept = 'reply_0123456789012345678901';
    const fields = written({ streams: streamsOf([3, { attempt: 1, kept }], [5, { attempt: 1, kept }]) });
    fields.write(0, { ...COMMIT, number: 3, streams: streamsOf([5, { isRepeatable: true }]) });
    const of = (id: number) => fields.read().streams.get(id);
    expect([of(3), of(5)]).toEqual([
      { attempt: 1, isRepeatable: false, kept, parts: [], end: undefined },
      { attempt: 1, isRepeatable: true, kept, parts: [], end: undefined },
    ]);
    const texts = (...pairs: readonly [string, string][]) =>
      new Map(pairs.map(([name, text]) => [name, part(text)] as const));
    expect(goesOn(texts(['s3', `1 ${kept}`]), 3, kept)).toBe(false);
    expect(goesOn(texts(['s5', `1 again ${kept}`]), 5, kept)).toBe(true);
    expect(goesOn(texts(['s5', '2 again']), 5, kept)).toBe(false);
    expect(goesOn(texts(['s5', `1 again ${kept}`], ['x5', '']), 5, kept)).toBe(false);
    expect(goesOn(new Map(), 5, kept)).toBe(false);
  });

  it('says so also when the next process has called the handler', () => {
    const kept = 'reply_0123456789012345678901';
    const fields = written({ streams: streamsOf([5, { attempt: 1, isRepeatable: true, kept }]) });
    fields.claim(0);
    fields.write(1, { ...COMMIT, streams: streamsOf([5, { attempt: 2 }]) });
    expect(fields.read().streams.get(5)).toMatchObject({ attempt: 2, isRepeatable: true, kept });
  });

  it('has nothing left of what is not needed any more', () => {
    const messages = [1, 2, 3].map((number) => ({ number, body: part('m') }));
    const fields = written(
      { messages, streams: streamsOf([1, { attempt: 1, parts: [part('a')], end: part('') }]) },
      { confirmed: 2, streams: streamsOf([1, { isForgotten: true }]) },
    );
    expect(fields.names).toEqual(['accept', 'begin', 'm3', 'principal', 'said']);
    expect(fields.read().messages).toEqual([{ number: 3, body: part('m') }]);
  });

  it('has nothing left either if another process says so', () => {
    const messages = [1, 2, 3].map((number) => ({ number, body: part('m') }));
    const fields = written(
      { messages, streams: streamsOf([1, { attempt: 1, parts: [part('a'), part('b')] }]) },
      { confirmed: 1 },
    );
    fields.claim(0);
    fields.write(1, { ...COMMIT, confirmed: 3, streams: streamsOf([1, { isForgotten: true }]) });
    expect(fields.names).toEqual(['accept', 'begin', 'principal', 'said']);
  });

  it('does not count up to what a client has heard of and the engine has forgotten, but says so', () => {
    const fields = written({ confirmed: Number.MAX_SAFE_INTEGER });
    expect(fields.names).toEqual(['accept', 'begin', 'principal', 'said']);
    expect(fields.read()).toMatchObject({ said: Number.MAX_SAFE_INTEGER, messages: [] });
  });

  it('says which messages former pages have written', () => {
    const fields = written({ ofFormerPages: 7 });
    fields.write(0, { ...COMMIT, number: 3, handled: 1 });
    expect(fields.read().ofFormerPages).toBe(7);
  });

  it('says that the client is to be told of lost commits, until it knows', () => {
    const fields = written({ isBehind: true });
    expect(fields.read().isBehind).toBe(true);
    fields.write(0, { ...COMMIT, number: 3, handled: 1 });
    expect(fields.read().isBehind).toBe(true);
    fields.write(0, { ...COMMIT, number: 4, isBehind: false });
    expect(fields.read().isBehind).toBe(false);
    expect(fields.names).not.toContain('behind');
  });

  it.each<[string, Record<string, string | undefined>]>([
    ['without an agreement', { begin: undefined }],
    ['without tokens', { accept: '3' }],
    ['without an attempt', { accept: ' aa' }],
    ['with half a count', { handled: '1.5' }],
    ['with a negative number of another session', { hsess_a: '-1' }],
    ['with a negative count', { said: '-1' }],
    ['with a message missing', { said: '3', m1: 'a', m3: 'c' }],
    ['with messages that were not said', { said: '1', m2: 'b' }],
    ['with a part missing', { s1: '1', 'p1.0': 'a', 'p1.2': 'c' }],
    ['with a part of a far number', { s1: '1', 'p1.4294967295': 'a' }],
    ['with a handler that was called half a time', { s1: '0.5' }],
  ])('is refused %s', (_, changes) => {
    const fields = Object.entries({ begin: 'b', accept: '3 aa', ...changes });
    const present = fields.flatMap(([name, text]) =>
      text === undefined ? [] : [[name, name === 'begin' ? pack(part(text)) : part(text)] as const],
    );
    expect(errorCode(() => readFields(new Map(present)))).toBe('bad_message');
  });
});
