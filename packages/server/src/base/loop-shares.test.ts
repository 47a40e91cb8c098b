import { describe, expect, it } from 'vitest';
import { BURST_MS, type LoopAccount, LoopShares, MAX_DEBT_MS, TICK_MS } from './loop-shares.js';

/** An event loop in virtual time: immediates run tick by tick, timers when nothing else is left. */
function createLoop(share = 0.5) {
  let now = 0;
  let immediates: (() => void)[] = [];
  const timers: { at: number; task: () => void }[] = [];
  const shares = new LoopShares({
    share,
    now: () => now,
    soon: (task) => immediates.push(task),
    after: (ms, task) => timers.push({ at: now + ms, task }),
  });
  return {
    shares,
    now: () => now,
    work: (ms: number) => {
      now += ms;
    },
    /** Tasks that were requested during this tick. */
    async tick() {
      const due = immediates;
      immediates = [];
      for (const task of due) {
        task();
        await Promise.resolve();
        await Promise.resolve();
      }
    },
    async pass(ms: number) {
      now += ms;
      for (const timer of timers.splice(0)) {
        if (timer.at > now) timers.push(timer);
        else timer.task();
        await Promise.resolve();
        await Promise.resolve();
      }
    },
  };
}

type Loop = ReturnType<typeof createLoop>;

/** Handles a message that takes `ms`, or makes it wait. */
function message(loop: Loop, account: LoopAccount, ms: number, log: string[], name: string): void {
  const run = () => {
    loop.work(ms);
    log.push(name);
  };
  if (account.enter(loop.now())) run();
  else account.push(run);
}

describe('an account', () => {
  it('is unused once it has repaid what it has used', async () => {
    const loop = createLoop();
    const account = loop.shares.open();
    expect(account.isUnused).toBe(true);
    message(loop, account, 100, [], 'long');
    await loop.tick();
    expect(account.isUnused).toBe(false);
    loop.work(99);
    expect(account.isUnused).toBe(false);
    loop.work(1);
    expect(account.isUnused).toBe(true);
  });
});

describe('one account alone', () => {
  it('gets all of the time, tick by tick, in the order of its messages', async () => {
    const loop = createLoop();
    const account = loop.shares.open('a');
    const log: string[] = [];
    for (let i = 0; i < 100; i++) message(loop, account, 1, log, String(i));
    expect(log).toHaveLength(TICK_MS);
    for (let ticks = 0; ticks < 100 && log.length < 100; ticks++) await loop.tick();
    expect(log).toEqual(Array.from({ length: 100 }, (_, i) => String(i)));
    // Nothing had to wait.
    expect(loop.now()).toBe(100);
  });

  it('with a share of 1 is limited only by ticks, even if others are served', async () => {
    const loop = createLoop(1);
    const [a, b] = [loop.shares.open('a'), loop.shares.open('b')];
    const log: string[] = [];
    message(loop, b, 1, log, 'b');
    for (let i = 0; i < 300; i++) message(loop, a, 1, log, 'a');
    for (let ticks = 0; ticks < 300 && log.length < 301; ticks++) await loop.tick();
    expect(loop.now()).toBe(301);
  });
});

describe('an account among others', () => {
  it('gets its share and one burst, and the others are handled at once', async () => {
    const loop = createLoop(0.5);
    const [busy, other] = [loop.shares.open('busy'), loop.shares.open('other')];
    const log: string[] = [];
    let waited = 0;
    let used = 0;
    const run = () => {
      loop.work(1);
      used++;
    };
    for (let i = 0; i < 5_000; i++) busy.enter(loop.now()) ? run() : busy.push(run);
    while (loop.now() < 2_000) {
      const before = loop.now();
      message(loop, other, 0.01, log, 'other');
      waited = Math.max(waited, loop.now() - before);
      await loop.tick();
      // Time that no message uses passes.
      await loop.pass(0.5);
    }
    expect(waited).toBeLessThan(1);
    expect(used).toBeLessThanOrEqual(1_000 + BURST_MS + TICK_MS);
    expect(used).toBeGreaterThan(800);
  });

  it('of a hundred connections has one share for all of them', async () => {
    const loop = createLoop(0.5);
    const other = loop.shares.open('other');
    const connections = Array.from({ length: 100 }, () => loop.shares.open('busy'));
    expect(new Set(connections).size).toBe(1);
    other.enter(loop.now());
    const log: string[] = [];
    for (const account of connections) for (let i = 0; i < 50; i++) message(loop, account, 1, log, 'busy');
    while (loop.now() < 1_000) {
      other.enter(loop.now());
      await loop.tick();
      await loop.pass(0.5);
    }
    expect(log.length).toBeLessThanOrEqual(500 + BURST_MS + TICK_MS);
  });

  it('has a bounded debt, however long a call has taken', async () => {
    const loop = createLoop(0.5);
    const [busy, other] = [loop.shares.open('busy'), loop.shares.open('other')];
    const log: string[] = [];
    other.enter(loop.now());
    message(loop, busy, 10_000, log, 'long');
    message(loop, busy, 1, log, 'next');
    const begun = loop.now();
    while (log.length < 2 && loop.now() < begun + 5_000) {
      other.enter(loop.now());
      await loop.tick();
      await loop.pass(1);
    }
    expect(loop.now() - begun).toBeLessThanOrEqual(MAX_DEBT_MS / 0.5 + 5);
  });

  it('waits only for its own debt', async () => {
    const loop = createLoop(0.5);
    const [busy, other] = [loop.shares.open('busy'), loop.shares.open('other')];
    const log: string[] = [];
    other.enter(loop.now());
    message(loop, busy, 1_000, log, 'busy');
    message(loop, busy, 1, log, 'busy again');
    await loop.tick();
    await loop.pass(1);
    // More than one tick allows, so some of it has to wait.
    for (let i = 0; i < 30; i++) message(loop, other, 1, log, 'other');
    const begun = loop.now();
    while (log.filter((name) => name === 'other').length < 30 && loop.now() < begun + 5_000) {
      await loop.tick();
      await loop.pass(1);
    }
    expect(loop.now() - begun).toBeLessThan(60);
    expect(log).not.toContain('busy again');
  });

  it('works in slices that wait for its turn, like its messages', async () => {
    const loop = createLoop(0.5);
    const [busy, other] = [loop.shares.open('busy'), loop.shares.open('other')];
    let slices = 0;
    const job = async () => {
      for (let i = 0; i < 1_000; i++) {
        loop.work(5);
        slices++;
        await busy.next();
      }
    };
    busy.enter(loop.now());
    for (let i = 0; i < 20; i++) void job();
    while (loop.now() < 2_000) {
      other.enter(loop.now());
      await loop.tick();
      await loop.pass(0.5);
    }
    // The first slice of each job runs at once.
    expect(slices).toBeLessThanOrEqual(20 + (1_000 + BURST_MS + TICK_MS) / 5);
  });
});

describe('accounts', () => {
  it('are forgotten when their last user closes them', () => {
    const { shares } = createLoop();
    const first = shares.open('a');
    expect(shares.open('a')).toBe(first);
    shares.close('a');
    expect(shares.size).toBe(1);
    shares.close('a');
    expect(shares.size).toBe(0);
    expect(shares.open(undefined)).not.toBe(shares.open(undefined));
    shares.close(undefined);
    expect(shares.size).toBe(0);
  });
});
