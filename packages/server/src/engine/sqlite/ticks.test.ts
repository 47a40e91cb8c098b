import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  type MockInstance,
  vi,
} from 'vitest';
import type { SessionWrite } from '../engine.js';
import { ask, type SqlCall, type SqlDatabase } from '../sql/call.js';
import { SqlConnection } from '../sql/connection.js';
import { failure } from './failures.js';
import type { Database } from './library.js';
import { DIALECT, openDatabase } from './open.js';
import { MAX_WAITING, Ticks } from './ticks.js';

describe('calls of one tick of the event loop', () => {
  let folder: string;
  let database: Database;
  let ticks: Ticks;
  const statements: string[] = [];
  /** The clock, if the test has its own. */
  let now: MockInstance<() => number> | undefined;
  let files = 0;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'parlance-ticks-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  beforeEach(() => {
    database = openDatabase(join(folder, `${files++}.db`));
    database.exec('CREATE TABLE numbers (number INTEGER PRIMARY KEY)');
    const watched: Database = {
      exec: (text) => database.exec(text),
      close: () => database.close(),
      prepare(text) {
        const statement = database.prepare(text);
        return {
          all(...values) {
            statements.push(text.trim().split(/\s+/)[0] as string);
            return statement.all(...values);
          },
        };
      },
    };
    ticks = new Ticks(watched, (error) => failure('test.db', error));
    statements.length = 0;
  });

  afterEach(() => now?.mockRestore());

  const add = (number: number) =>
    ticks.run(function* (): SqlCall<number> {
      yield* ask('INSERT INTO numbers VALUES (?)', number);
      return number;
    });
  const all = () =>
    ticks.run(function* (): SqlCall<readonly number[]> {
      const rows = yield* ask('SELECT number FROM numbers ORDER BY number');
      return rows.map(({ number }) => Number(number));
    });
  const connected = (): SqlConnection => {
    const own: SqlDatabase = {
      dialect: DIALECT,
      run: (begin) => ticks.run(begin),
      wake() {},
      watch: () => () => {},
      isVolatile: async () => false,
      async close() {},
    };
    return new SqlConnection(own);
  };

  it('run in one transaction, in their order', async () => {
    now = vi.spyOn(performance, 'now').mockReturnValue(0);
    expect(await Promise.all([add(1), add(2), all(), add(3)])).toEqual([1, 2, [1, 2], 3]);
    expect(statements).toEqual(['BEGIN', 'INSERT', 'INSERT', 'SELECT', 'INSERT', 'COMMIT']);
    expect(await all()).toEqual([1, 2, 3]);
  });

  it('let other work of the process have its turn after 20 ms', async () => {
    now = vi.spyOn(performance, 'now').mockReturnValue(0);
    const slow = () =>
      ticks.run(function* (): SqlCall<number> {
        now?.mockReturnValue(20.1);
        yield* ask('INSERT INTO numbers VALUES (?)', 2);
        return 2;
      });
    expect(await Promise.all([add(1), slow(), all(), add(3)])).toEqual([1, 2, [1, 2], 3]);
    const [first, second] = [
      ['BEGIN', 'INSERT', 'INSERT', 'COMMIT'],
      ['BEGIN', 'SELECT', 'INSERT', 'COMMIT'],
    ];
    expect(statements).toEqual([...first, ...second]);
  });

  it('are refused if too many wait', async () => {
    const calls = Array.from({ length: MAX_WAITING + 1 }, (_, i) => add(i));
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.slice(0, -1).every(({ status }) => status === 'fulfilled')).toBe(true);
    expect(outcomes.at(-1)).toMatchObject({ reason: { code: 'timeout' } });
    await add(MAX_WAITING);
    expect((await all()).length).toBe(MAX_WAITING + 1);
  });

  it('fail each by itself, and without an effect', async () => {
    const fail = () =>
      ticks.run(function* (): SqlCall<void> {
        yield* ask('INSERT INTO numbers VALUES (?)', 7);
        yield* ask('INSERT INTO numbers VALUES (?)', 1);
      });
    const outcomes = await Promise.allSettled([add(1), fail(), add(2)]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(outcomes[1]).toMatchObject({ reason: { code: 'connection_failed' } });
    expect(await all()).toEqual([1, 2]);
  });

  it('write a commit that only adds fields with two statements, and see what is in its way', async () => {
    const link = connected();
    const write = (number: number, name: string, more: Partial<SessionWrite> = {}) =>
      link.writeSession('sess_1', {
        ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, ttlMs: 60_000, remove: [] },
        ...{ set: new Map([[name, new Uint8Array(8)]]), maxBytes: 30, ...more },
      });
    const statementsOf = async (call: Promise<unknown>, outcome: unknown) => {
      statements.length = 0;
      expect(await call).toEqual(outcome);
      return statements.filter((word) => word !== 'BEGIN' && word !== 'COMMIT');
    };
    expect(await write(1, 'm1')).toBe('written');
    expect(await statementsOf(write(2, 'm2'), 'written')).toEqual(['UPDATE', 'INSERT']);
    expect(await statementsOf(write(2, 'm2'), 'written')).toEqual(['UPDATE', 'SELECT', 'UPDATE']);
    expect(await statementsOf(write(3, 'm2'), 'written')).toHaveLength(5);
    expect(await statementsOf(write(4, 'm4', { maxBytes: 30 }), 'written')).toEqual(['UPDATE', 'INSERT']);
    for (const [more, outcome] of [
      [{}, { needed: 40 }],
      [{ owner: 'bbbbbb' }, 'fenced'],
      [{ epoch: 1 }, 'fenced'],
      [{ after: 5 }, 'behind'],
    ] as const)
      expect((await statementsOf(write(5, 'm5', more), outcome))[1]).toBe('SELECT');
    expect(await write(5, 'm5', { maxBytes: 40 })).toBe('written');
  });

  it('fail with a typed error while there is no room, and succeed when there is', async () => {
    const link = connected();
    const write = (number: number, bytes: number) =>
      link.writeSession('sess_1', {
        ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, ttlMs: 60_000, remove: [] },
        set: new Map([[`m${number}`, new Uint8Array(bytes)]]),
      });
    expect(await write(1, 10)).toBe('written');
    const [pages] = database.prepare('PRAGMA page_count').all() as { page_count: number }[];
    database.exec(`PRAGMA max_page_count = ${(pages?.page_count ?? 0) + 4}`);
    const outcomes = await Promise.allSettled([write(2, 100_000), link.findSession('sess_1')]);
    expect(outcomes).toMatchObject([
      { reason: { code: 'connection_failed', message: 'SQLite: test.db: the disk is full' } },
      { value: { owner: 'aaaaaa', epoch: 0 } },
    ]);
    database.exec('PRAGMA max_page_count = 100000');
    expect(await write(2, 100_000)).toBe('written');
    expect((await link.readSession('sess_1', ['m1', 'm2']))?.fields.get('m2')?.length).toBe(100_000);
  });
});
