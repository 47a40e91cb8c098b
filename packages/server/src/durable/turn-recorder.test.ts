import type { Logger } from '@parlance/protocol';
import { ProtocolError } from '@parlance/protocol';
import type { DurableSession, Turn } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../protocol/src/testing/manual-clock.js';
import type { SessionWrite, SessionWritten } from '../backplane/backplane.js';
import { STALL_MS, TurnRecorder } from './turn-recorder.js';

const TURN: Omit<Turn, 'number'> = {
  ...{ begin: undefined, accept: undefined, handled: undefined, state: undefined },
  ...{ messages: [], confirmed: undefined, streams: new Map() },
};

/** A session whose turns say that one message more is handled. */
class FakeSession implements DurableSession {
  readonly state = undefined;
  handled = 0;
  recorded = 0;
  #turns = 0;
  #pending = false;
  #isPresent = false;
  hasLazy = false;
  readonly isHeldBack = false;

  get isIdle(): boolean {
    return !this.#pending && !this.#isPresent;
  }
  handle(): void {
    this.handled++;
    this.#pending = true;
  }
  pollTurn(takesAll = false): Turn | undefined {
    if (this.#isPresent || !(this.#pending || (takesAll && this.hasLazy))) return undefined;
    this.#pending = false;
    this.hasLazy = false;
    this.#isPresent = true;
    return { ...TURN, number: ++this.#turns, handled: this.handled };
  }
  handleRecorded(): void {
    this.#isPresent = false;
    this.recorded = this.#turns;
  }
  setState(): void {}
  commit(): void {}
  repeat(): void {}
  afterRecord(): void {}
}

function setUp() {
  const clock = new ManualClock();
  const durable = new FakeSession();
  const writes: SessionWrite[] = [];
  const waiting: { resolve(answer: SessionWritten): void; reject(error: Error): void }[] = [];
  const events: string[] = [];
  const note = (fields: Readonly<Record<string, unknown>>) => void events.push(String(fields['event']));
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  const recorder = new TurnRecorder({
    ...{ sessionId: 'sess_one', principal: undefined, owner: 'aaaaaa', epoch: 2, ttlMs: 60_000 },
    ...{ durable, clock, logger },
    link: {
      writeSession: (_id, write) => {
        writes.push(write);
        return new Promise((resolve, reject) => void waiting.push({ resolve, reject }));
      },
    },
    onRecorded: () => void events.push('recorded'),
    onRefused: (why) => void events.push(why),
  });
  /** Lets what has been answered be handled. */
  const turn = async () => {
    for (let i = 0; i < 10; i++) await Promise.resolve();
  };
  const answer = async (outcome: SessionWritten | Error) => {
    const write = waiting.shift();
    if (typeof outcome === 'string') write?.resolve(outcome);
    else write?.reject(outcome);
    await turn();
  };
  return { clock, durable, writes, events, recorder, turn, answer };
}

const LOST = new ProtocolError('timeout', 'no answer');

describe('the recorder of turns', () => {
  it('writes what happens in one turn of the loop together, with its owner and epoch', async () => {
    const { durable, writes, recorder, turn } = setUp();
    durable.handle();
    recorder.wake();
    durable.handle();
    recorder.wake();
    expect(writes).toEqual([]);
    await turn();
    expect(writes).toMatchObject([
      {
        owner: 'aaaaaa',
        epoch: 2,
        number: 1,
        isFirst: false,
        set: new Map([['handled', new Uint8Array(Buffer.from('2'))]]),
      },
    ]);
  });

  it('writes one turn at a time, and then what has happened meanwhile', async () => {
    const { durable, writes, events, recorder, turn, answer } = setUp();
    durable.handle();
    recorder.wake();
    await turn();
    durable.handle();
    recorder.wake();
    await turn();
    expect(writes).toHaveLength(1);
    await answer('written');
    expect(events).toEqual(['recorded']);
    expect(durable.recorded).toBe(1);
    expect(writes.map(({ number }) => number)).toEqual([1, 2]);
  });

  it('writes the same turn again until it is answered', async () => {
    const { clock, durable, writes, events, recorder, turn, answer } = setUp();
    durable.handle();
    recorder.wake();
    await turn();
    await answer(LOST);
    durable.handle();
    recorder.wake();
    clock.pass(24);
    expect(writes).toHaveLength(1);
    clock.pass(1);
    await answer(LOST);
    clock.pass(50);
    expect(writes).toHaveLength(3);
    expect(new Set(writes.map((write) => JSON.stringify([write.number, [...write.set]])))).toHaveLength(1);
    expect(events).toEqual([]);
    await answer('written');
    expect(events).toEqual(['recorded']);
    expect(writes.at(-1)?.number).toBe(2);
  });

  it.each(['fenced', 'gone'] as const)('writes nothing more if the answer is %s', async (refusal) => {
    const { durable, writes, events, recorder, turn, answer } = setUp();
    durable.handle();
    recorder.wake();
    await turn();
    await answer(refusal);
    durable.handle();
    recorder.wake();
    recorder.tidy();
    await turn();
    expect(events).toEqual([refusal]);
    expect([writes.length, durable.recorded]).toEqual([1, 0]);
  });

  it('writes nothing again when it is closed', async () => {
    const { clock, durable, writes, events, recorder, turn, answer } = setUp();
    durable.handle();
    recorder.wake();
    await turn();
    await answer(LOST);
    recorder.close();
    clock.pass(10_000);
    expect(writes).toHaveLength(1);
    expect(events).toEqual([]);
  });

  it('ignores an answer that comes after it was closed', async () => {
    const { durable, events, recorder, turn, answer } = setUp();
    durable.handle();
    recorder.wake();
    await turn();
    recorder.close();
    await answer('written');
    expect([events, durable.recorded]).toEqual([[], 0]);
  });

  it('says once that the engine does not answer, and that it does again', async () => {
    const { clock, durable, events, recorder, turn, answer } = setUp();
    durable.handle();
    recorder.wake();
    await turn();
    clock.pass(STALL_MS - 1);
    await answer(LOST);
    expect(events).toEqual([]);
    for (let i = 0; i < 3; i++) {
      clock.pass(1_000);
      await answer(LOST);
    }
    expect(events).toEqual(['engine.stalled']);
    clock.pass(1_000);
    await answer('written');
    expect(events).toEqual(['engine.stalled', 'engine.answered', 'recorded']);
  });

  it('writes what is not needed any more when it is asked to', async () => {
    const { durable, writes, recorder, turn } = setUp();
    durable.hasLazy = true;
    recorder.wake();
    await turn();
    expect(writes).toEqual([]);
    recorder.tidy();
    expect(writes).toHaveLength(1);
  });
});
