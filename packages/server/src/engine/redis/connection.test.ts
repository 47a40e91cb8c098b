import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ENGINE_TIMEOUT_MS } from '../engine.js';
import { type Lane, OPEN_TIMEOUT_MS, RedisConnection, type Wire } from './connection.js';

/** A wire on which a test says what happens. */
class FakeWire implements Wire {
  onLost = (_why: Error): void => {};
  readonly isShared: boolean;
  readonly ready: Promise<void>;
  readonly fate: string[] = [];
  readonly answers: ((value: string) => void)[] = [];
  open = (): void => {};
  fail = (_why: Error): void => {};

  constructor(isShared = false) {
    this.isShared = isShared;
    this.ready = new Promise((resolve, reject) => {
      this.open = resolve;
      this.fail = reject;
    });
  }

  close(): void {
    this.fate.push('closed');
  }
  cut(): void {
    this.fate.push('cut');
  }
  ask(): Promise<string> {
    return new Promise((resolve) => this.answers.push(resolve));
  }
}

function start({ isShared = false, max = 10 } = {}) {
  const wires: FakeWire[] = [];
  let replaced = 0;
  const connection = new RedisConnection<FakeWire>({
    async open() {
      const wire = new FakeWire(isShared);
      wires.push(wire);
      return wire;
    },
    onReplaced: () => replaced++,
  });
  const lane: Lane = { max, unanswered: 0 };
  /** How a command ends: its answer, or the message of the error. */
  const run = (withinMs?: number) => {
    const command = { outcome: undefined as string | undefined };
    connection
      .run(lane, (wire) => wire.ask(), withinMs)
      .then(
        (answer) => {
          command.outcome = answer;
        },
        (error: Error) => {
          command.outcome = error.message;
        },
      );
    return command;
  };
  return {
    connection,
    wires,
    lane,
    run,
    replaced: () => replaced,
    /** With one connection that is open. */
    async opened() {
      const command = run();
      await pass(0);
      wires.at(-1)?.open();
      await pass(0);
      wires.at(-1)?.answers[0]?.('first');
      await pass(0);
      expect(command.outcome).toBe('first');
      return wires.at(-1) as FakeWire;
    },
  };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const LATE = `Redis did not answer within ${ENGINE_TIMEOUT_MS} ms`;

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'performance'],
  });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a connection to Redis', () => {
  it('is opened with the first command, once, and used on', async () => {
    const { run, wires, opened } = start();
    expect(wires).toHaveLength(0);
    const wire = await opened();
    const [a, b] = [run(), run()];
    wire.answers[2]?.('b');
    wire.answers[1]?.('a');
    await pass(0);
    expect([a.outcome, b.outcome]).toEqual(['a', 'b']);
    await pass(60_000);
    expect(wires).toHaveLength(1);
    expect(wire.fate).toEqual([]);
  });

  it('is closed with the first command that is not answered in time, and replaced with the next one', async () => {
    const { run, wires, opened, replaced, lane } = start();
    const wire = await opened();
    const early = run();
    await pass(ENGINE_TIMEOUT_MS - 1);
    const later = run();
    expect(early.outcome).toBeUndefined();
    await pass(2);
    // The later one may have been executed as well, and gets no answer any more.
    expect([early.outcome, later.outcome]).toEqual([LATE, LATE]);
    expect(wire.fate).toEqual(['cut']);
    expect([replaced(), lane.unanswered, wires.length]).toEqual([1, 0, 1]);
    const next = run();
    await pass(0);
    wires[1]?.open();
    await pass(0);
    wires[1]?.answers[0]?.('again');
    await pass(0);
    expect(next.outcome).toBe('again');
    expect([replaced(), wires.length]).toEqual([1, 2]);
  });

  it('gives a command that Redis holds its time, and the deadline', async () => {
    const { run, opened } = start();
    const wire = await opened();
    const held = run(500 + ENGINE_TIMEOUT_MS);
    await pass(499 + ENGINE_TIMEOUT_MS);
    expect([held.outcome, ...wire.fate]).toEqual([undefined]);
    await pass(2);
    expect([held.outcome, ...wire.fate]).toEqual([
      `Redis did not answer within ${500 + ENGINE_TIMEOUT_MS} ms`,
      'cut',
    ]);
  });

  it('is not blamed for an answer that this process had no time to read', async () => {
    const { run, opened } = start();
    const wire = await opened();
    const command = run();
    // The timer fires as the process wakes up, and the answer is read right after it.
    vi.advanceTimersToNextTimer();
    wire.answers[1]?.('read late');
    await pass(1);
    expect([command.outcome, ...wire.fate]).toEqual(['read late']);
  });

  it('that is silent while it is opened is given up, and its commands before', async () => {
    const { run, wires, opened } = start();
    (await opened()).onLost(new Error('reset'));
    const command = run();
    await pass(ENGINE_TIMEOUT_MS + 1);
    expect(command.outcome).toBe(LATE);
    expect(wires[1]?.fate).toEqual([]);
    // They share one attempt, which may take longer.
    const second = run();
    await pass(OPEN_TIMEOUT_MS - ENGINE_TIMEOUT_MS);
    expect(second.outcome).toBe(`Redis did not answer within ${OPEN_TIMEOUT_MS} ms`);
    expect(wires.map(({ fate }) => fate)).toEqual([['cut'], ['cut']]);
  });

  it('that was never open is waited for until it is given up', async () => {
    const { run, wires } = start();
    const command = run();
    await pass(OPEN_TIMEOUT_MS - 1);
    expect([command.outcome, ...(wires[0]?.fate ?? [])]).toEqual([undefined]);
    await pass(2);
    expect(command.outcome).toBe(`Redis did not answer within ${OPEN_TIMEOUT_MS} ms`);
    expect(wires[0]?.fate).toEqual(['cut']);
  });

  it('is opened again soon, later and later, for as long as it fails', async () => {
    const { run, wires, opened } = start();
    for (const delayMs of [50, 100, 150]) {
      const count = wires.length;
      const command = run();
      await pass(0);
      expect(wires).toHaveLength(count + 1);
      wires.at(-1)?.fail(new Error('refused'));
      await pass(0);
      expect(command.outcome).toBe('refused');
      await pass(delayMs - 1);
      const early = run();
      await pass(0);
      expect(early.outcome).toBe('refused');
      expect(wires).toHaveLength(count + 1);
      await pass(1);
    }
    for (let i = 0; i < 30; i++) {
      run();
      await pass(0);
      wires.at(-1)?.fail(new Error('refused'));
      await pass(1_000);
    }
    expect(wires).toHaveLength(33);
    // One that was open is replaced at once.
    const wire = await opened();
    wire.onLost(new Error('reset'));
    run();
    await pass(0);
    expect(wires).toHaveLength(35);
  });

  it.each([
    "READONLY You can't write against a read only replica.",
    "ERR Error running script (call to f_1): @user_script:8: -READONLY You can't write against a read only replica.",
  ])('whose server has become a replica is replaced, once a second: %s', async (message) => {
    const { connection, run, wires, lane, opened } = start();
    const wire = await opened();
    const write = () => connection.run(lane, () => Promise.reject(new Error(message)));
    await expect(write()).rejects.toThrow(message);
    expect(wire.fate).toEqual(['cut']);
    await expect(write()).rejects.toThrow(message);
    expect(wires).toHaveLength(1);
    await pass(1_000);
    const next = run();
    await pass(0);
    wires[1]?.open();
    await pass(0);
    wires[1]?.answers[0]?.('written');
    await pass(0);
    expect(next.outcome).toBe('written');
  });

  it('that is lost fails what waits for answers at once', async () => {
    const { run, opened, replaced, lane } = start();
    const wire = await opened();
    const commands = [run(), run()];
    wire.onLost(new Error('reset by peer'));
    await pass(0);
    expect(commands.map(({ outcome }) => outcome)).toEqual(['reset by peer', 'reset by peer']);
    expect([replaced(), lane.unanswered]).toEqual([1, 0]);
    // Libraries say that more than once.
    wire.onLost(new Error('closed'));
    expect(replaced()).toBe(1);
  });

  it('is sent as many commands as the lane allows, those that wait for it included', async () => {
    const { run, wires, lane } = start({ max: 2 });
    const waiting = [run(), run(), run()];
    await pass(0);
    expect(waiting.map(({ outcome }) => outcome)).toEqual([
      undefined,
      undefined,
      'Redis has not answered earlier commands',
    ]);
    await pass(OPEN_TIMEOUT_MS + 1);
    expect(lane.unanswered).toBe(0);
    expect(wires).toHaveLength(1);
  });

  it('is closed after what was sent, and not opened again', async () => {
    const { connection, run, wires, opened } = start();
    const wire = await opened();
    const command = run();
    connection.close();
    connection.close();
    await pass(0);
    expect([command.outcome, ...wire.fate]).toEqual(['Redis: the connection was closed', 'closed']);
    const late = run();
    await pass(60_000);
    expect(late.outcome).toBe('Redis: the connection was closed');
    expect(wires).toHaveLength(1);
  });

  it('that is being opened when it is closed is cut', async () => {
    const { connection, run, wires } = start();
    const command = run();
    await pass(0);
    connection.close();
    wires[0]?.open();
    await pass(0);
    expect(command.outcome).toBe('Redis: the connection was closed');
    expect(wires[0]?.fate).toContain('cut');
  });

  it('of the application stays, and what it has not answered counts until it has', async () => {
    const { run, wires, opened, replaced, lane } = start({ isShared: true, max: 2 });
    const wire = await opened();
    const [a, b] = [run(), run()];
    await pass(ENGINE_TIMEOUT_MS + 1);
    expect([a.outcome, b.outcome]).toEqual([LATE, LATE]);
    expect([...wire.fate, replaced(), wires.length]).toEqual([0, 1]);
    expect(lane.unanswered).toBe(2);
    const refused = run();
    await pass(0);
    expect(refused.outcome).toBe('Redis has not answered earlier commands');
    wire.answers[1]?.('late');
    await pass(0);
    expect(lane.unanswered).toBe(1);
  });
});
