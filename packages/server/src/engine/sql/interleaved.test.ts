import { describe, expect, it } from 'vitest';
import type { SessionWrite } from '../engine.js';
import { DIALECT as POSTGRES } from '../postgres/dialect.js';
import { loadLibrary } from '../sqlite/library.js';
import { DIALECT } from '../sqlite/open.js';
import type { Row, SqlCall } from './call.js';
import { readParts } from './log-reading.js';
import { forget } from './log-tables.js';
import { appendParts, openReply } from './log-writing.js';
import { STEPS } from './schema.js';
import { SessionCalls } from './sessions.js';
import { Sweeper } from './sweeper.js';

/** Calls between whose statements another one is executed, as in a database with several transactions at a time. */

const TTL_MS = 60_000;
const BOUNDS = { maxReplies: 10, maxReplyBytes: 1 << 20, maxOwnerBytes: 1 << 20 };
const { DatabaseSync } = loadLibrary();

function setUp() {
  const database = new DatabaseSync(':memory:');
  database.exec(STEPS.flatMap((step) => step(DIALECT)).join(';'));
  let asked = 0;
  /** @param between is called after the first statement. */
  const run = <Result>(call: SqlCall<Result>, between = (): void => {}): Result => {
    asked = 0;
    for (let step = call.next(); ; ) {
      if (step.done === true) return step.value;
      const { text, values } = step.value;
      const rows = database.prepare(text).all(...values) as readonly Row[];
      if (asked++ === 0) {
        const before = asked;
        between();
        asked = before;
      }
      step = call.next(rows);
    }
  };
  return { run, asked: () => asked };
}

const writeOf = (ttlMs: number, replaces = false) => ({
  ...{ owner: 'aaaaaa', epoch: 0, number: 1, isFirst: !replaces, replaces, ttlMs, remove: [] },
  set: new Map([['begin', new Uint8Array(8)]]),
});

describe('a sweep', () => {
  it('leaves a session that was written again since it was looked at', () => {
    const { run } = setUp();
    const sessions = new SessionCalls(DIALECT);
    run(sessions.write('sess_one', writeOf(-1)));
    run(sessions.sweep(''), () =>
      expect(run(sessions.write('sess_one', writeOf(TTL_MS, true)))).toBe('written'),
    );
    expect(run(sessions.read('sess_one', ['begin']))?.fields.size).toBe(1);
  });

  it('forgets all that it looks at with few statements, however far away the database is', () => {
    const { run, asked } = setUp();
    const sessions = new SessionCalls(DIALECT);
    for (let i = 0; i < 500; i++) run(sessions.write(`sess_${i}`, writeOf(-1)));
    run(sessions.write('sess_kept', writeOf(TTL_MS)));
    const after = run(sessions.sweep(''));
    expect(asked()).toBeLessThan(20);
    run(sessions.sweep(after));
    expect(run(sessions.sweep(''))).toBe('');
    expect(asked()).toBe(1);
    expect(run(sessions.read('sess_kept', ['begin']))?.fields.size).toBe(1);
  });
});

/** Statements of a commit, if Postgres has the session. */
function askedFor(commit: SessionWrite): number {
  const found = { owner: 'aaaaaa', epoch: 0, written: 1, bytes: 1_000_000, left_ms: TTL_MS };
  const call = new SessionCalls(POSTGRES).write('sess_one', commit);
  let statements = 0;
  for (let step = call.next(); step.done !== true; step = call.next([found])) statements++;
  return statements;
}

it('a commit sets 16,384 fields of 32 bytes with one statement, however far away the database is', () => {
  const asked = (count: number, isFirst: boolean): number => {
    const names = Array.from({ length: count }, (_, i) => String(i).padStart(8, '0'));
    const set = new Map(names.map((name) => [name, new Uint8Array(24)]));
    return askedFor({ ...writeOf(TTL_MS), number: 2, isFirst, set });
  };
  for (const isFirst of [true, false]) {
    const few = asked(1, isFirst);
    expect(asked(16_384, isFirst)).toBe(few);
    expect(asked(16_385, isFirst)).toBe(few + 1);
  }
});

it('a commit removes any number of fields with as many statements, however far away the database is', () => {
  const asked = (count: number): number => {
    const remove = Array.from({ length: count }, (_, i) => `p1.${i}`);
    return askedFor({ ...writeOf(TTL_MS), number: 2, isFirst: false, remove });
  };
  expect(asked(1)).toBeGreaterThan(3);
  expect(asked(60_000)).toBe(asked(1));
});

describe('a step of a sweep', () => {
  it('waits for the one before, however slow the database is', async () => {
    const answers: (() => void)[] = [];
    const run = () =>
      new Promise<never>((_resolve, reject) => answers.push(() => reject(new Error('it is slow'))));
    const sweeper = new Sweeper({ dialect: DIALECT, run });
    const first = sweeper.step();
    void sweeper.step();
    for (const count of [1, 2, 3]) {
      await expect.poll(() => answers.length).toBe(count);
      answers[count - 1]?.();
    }
    await first;
    void sweeper.step();
    expect(answers).toHaveLength(4);
    sweeper.stop();
  });
});

describe('a read of parts', () => {
  it('of a reply that is forgotten meanwhile finds none, and not those of the tail', () => {
    const { run } = setUp();
    const head = {
      ...{ id: 'reply_one', owner: 'principal:ada', principal: 'ada', name: undefined, share: undefined },
      ...{ encoding: undefined, ttlMs: TTL_MS, startedAt: 1_700_000_000_000 },
    };
    const { id, owner } = head;
    run(openReply(DIALECT, head, BOUNDS, TTL_MS));
    const records = [new Uint8Array(4_000), new Uint8Array(4_000), new Uint8Array(200)];
    expect(run(appendParts(DIALECT, { id, owner, from: 0, offset: 0, records, metadata: [] }, BOUNDS))).toBe(
      'done',
    );
    expect(run(readParts(DIALECT, id, 0))?.records).toHaveLength(3);
    expect(run(readParts(DIALECT, id, 0), () => run(forget(DIALECT, '1 = 1')))).toBeUndefined();
  });
});
