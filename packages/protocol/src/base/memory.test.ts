import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RESERVATION_PATIENCE_MS, type Reservation, type SessionMemory } from './memory.js';
import { MemoryBudget } from './memory-budget.js';

const MIB = 1024 * 1024;
const tick = () => Promise.resolve();

/** Sessions of one process, each with the shares of its principal and address. */
function open(budget: MemoryBudget, principal: string, address = principal, limit = 32 * MIB): SessionMemory {
  const session = budget.open(limit);
  session.assign([`principal ${principal}`, `address ${address}`]);
  return session;
}

const reserve = (session: SessionMemory, size: number, log: string[], name: string, now = 0) =>
  session.queue(size, {
    now,
    begin: () => log.push(name),
    refuse: ({ code }) => log.push(`${name} ${code}`),
  });

describe('a session', () => {
  it('reserves up to its limit and not a byte more', () => {
    const session = new MemoryBudget(Infinity).open(100);
    const first = session.tryReserve(60);
    expect(session.tryReserve(41)).toBeUndefined();
    const second = session.tryReserve(40);
    expect([first, second]).not.toContain(undefined);
    expect(session.used).toBe(100);
  });

  it('may have a single reservation larger than its limit', () => {
    const session = new MemoryBudget(Infinity).open(100);
    const large = session.tryReserve(1000);
    expect(large).toBeDefined();
    expect(session.tryReserve(1)).toBeUndefined();
    large?.release();
    expect(session.tryReserve(1)).toBeDefined();
  });

  it('grants waiting reservations in order', () => {
    const session = new MemoryBudget(Infinity).open(100);
    const log: string[] = [];
    const first = session.tryReserve(80);
    reserve(session, 50, log, 'a');
    reserve(session, 10, log, 'b');
    // There is room for it, but nothing overtakes the queue.
    expect(session.tryReserve(10)).toBeUndefined();
    expect(log).toEqual([]);
    first?.release();
    expect(log).toEqual(['a', 'b']);
    first?.release();
    expect(session.used).toBe(60);
  });

  it('drops a reservation that is released while it waits, and gives a granted one back', () => {
    const session = new MemoryBudget(Infinity).open(100);
    const log: string[] = [];
    const first = session.tryReserve(100);
    const a = reserve(session, 50, log, 'a');
    const b = reserve(session, 50, log, 'b');
    a.release();
    first?.release();
    expect(log).toEqual(['b']);
    b.release();
    b.release();
    expect(session.used).toBe(0);
  });

  it('refuses a reservation that has waited for the full patience, not a millisecond before', () => {
    const session = new MemoryBudget(Infinity).open(100);
    const log: string[] = [];
    session.tryReserve(100);
    reserve(session, 1, log, 'a');
    session.handleTick(RESERVATION_PATIENCE_MS - 1);
    expect(log).toEqual([]);
    session.handleTick(RESERVATION_PATIENCE_MS);
    expect(log).toEqual(['a over_budget']);
  });

  it('lets a patient reservation wait for its own memory, but not for that of others', () => {
    const budget = new MemoryBudget(64 * MIB);
    const session = open(budget, 'a');
    const log: string[] = [];
    const own = session.tryReserve(16 * MIB);
    const options = { now: 0, begin: () => log.push('begun'), refuse: () => log.push('refused') };
    const single = new MemoryBudget(Infinity).open(100);
    single.tryReserve(100);
    single.queue(1, { ...options, isPatient: true });
    single.handleTick(RESERVATION_PATIENCE_MS);
    expect(log).toEqual([]);
    session.queue(MIB, { ...options, isPatient: true });
    session.handleTick(RESERVATION_PATIENCE_MS);
    expect(log).toEqual(['refused']);
    own?.release();
  });

  it('gives everything back once when it ends, and begins no waiting reservation', async () => {
    const budget = new MemoryBudget(1000 * MIB);
    const session = open(budget, 'a', 'a', 100);
    const log: string[] = [];
    const first = session.tryReserve(100);
    session.hold(500_000);
    reserve(session, 50, log, 'a');
    session.close();
    first?.release();
    session.hold(1_000_000);
    session.close();
    await tick();
    expect([budget.used, budget.shares, log]).toEqual([0, 0, []]);
    expect(session.tryReserve(1)).toBeDefined();
    expect(budget.used).toBe(0);
  });

  it('moves what it holds to its shares when they become known', () => {
    const budget = new MemoryBudget(1000 * MIB);
    const session = budget.open(32 * MIB);
    session.tryReserve(10 * MIB);
    session.assign(['principal a']);
    session.assign(['principal b', 'address c']);
    expect(budget.shares).toBe(2);
    session.close();
    expect([budget.used, budget.shares]).toEqual([0, 0]);
  });
});

describe('a process', () => {
  it('gives a single principal a quarter of its budget over all its sessions, and not a byte more', () => {
    const budget = new MemoryBudget(400 * MIB);
    const sessions = Array.from({ length: 100 }, (_, i) => open(budget, 'a', `address ${i}`));
    for (const session of sessions) session.tryReserve(MIB);
    expect(budget.used).toBe(100 * MIB);
    expect(open(budget, 'a', 'another').tryReserve(1)).toBeUndefined();
    expect(open(budget, 'b', 'another').tryReserve(MIB)).toBeDefined();
  });

  it('counts an address like a principal', () => {
    const budget = new MemoryBudget(400 * MIB);
    for (let i = 0; i < 100; i++) open(budget, `principal ${i}`, 'same').tryReserve(MIB);
    expect(open(budget, 'new', 'same').tryReserve(1)).toBeUndefined();
    expect(open(budget, 'new', 'other').tryReserve(1)).toBeDefined();
  });

  it('serves a newcomer at once, even if many others take all they can', () => {
    const budget = new MemoryBudget(256 * MIB);
    for (let i = 0; i < 200; i++) {
      const session = open(budget, `attacker ${i}`);
      while (session.tryReserve(512 * 1024) !== undefined);
    }
    expect(open(budget, 'newcomer').tryReserve(2 * MIB)).toBeDefined();
  });

  it('serves every waiting session when memory is given back, also those of the same principal', async () => {
    const budget = new MemoryBudget(40 * MIB);
    const log: string[] = [];
    const first = open(budget, 'a', '1');
    const second = open(budget, 'a', '2');
    const held = first.tryReserve(10 * MIB);
    reserve(second, 5 * MIB, log, 'second');
    expect([log, budget.waiting]).toEqual([[], 1]);
    held?.release();
    await tick();
    expect([log, budget.waiting]).toEqual([['second'], 0]);
  });

  it('counts what windows hold without a reservation', () => {
    const budget = new MemoryBudget(400 * MIB);
    const session = open(budget, 'a');
    expect([session.hold(60_000), budget.used]).toEqual([false, 0]);
    expect([session.hold(100 * MIB), budget.used]).toEqual([true, 100 * MIB]);
    expect([session.isScarce, session.tryReserve(1)]).toEqual([true, undefined]);
    const other = open(budget, 'a', 'of no weight');
    expect([other.hold(MIB - 1), other.isScarce]).toEqual([true, false]);
    other.close();
    expect([session.hold(0), budget.used, session.isScarce]).toEqual([true, 0, false]);
  });

  it('lets a session decode one body whose coded form its windows hold, if the process has the memory, and not a byte more', () => {
    const budget = new MemoryBudget(400 * MIB);
    const session = open(budget, 'a');
    session.hold(100 * MIB);
    // Less than what is held cannot be the same body.
    expect(session.tryReserve(90 * MIB)).toBeUndefined();
    expect(session.tryReserve(300 * MIB + 1)).toBeUndefined();
    const whole = session.tryReserve(300 * MIB);
    expect([whole?.size, budget.used]).toEqual([300 * MIB, 400 * MIB]);
    expect(session.tryReserve(1)).toBeUndefined();
    whole?.release();
    // The memory reserved for the other sessions of a principal does not matter.
    const [other, third] = [open(budget, 'a'), open(budget, 'a')];
    other.hold(4 * MIB);
    expect(session.tryReserve(200 * MIB)?.release()).toBeUndefined();
    third.hold(64 * 1024);
    const before = budget.used;
    expect([session.tryReserve(200 * MIB), budget.used]).toEqual([undefined, before]);
  });

  it('never loses count, in any order of calls', async () => {
    type Step = {
      session: number;
      size: number;
      act: 'reserve' | 'release' | 'hold' | 'close' | 'tick' | 'suspend';
    };
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record<Step>({
            session: fc.nat(4),
            size: fc.nat(3 * MIB),
            act: fc.constantFrom('reserve', 'reserve', 'release', 'hold', 'close', 'tick', 'suspend'),
          }),
          { maxLength: 120 },
        ),
        async (steps) => {
          const budget = new MemoryBudget(20 * MIB);
          const create = (i: number) => open(budget, `p${i % 2}`, `a${i % 3}`, 4 * MIB);
          const sessions = Array.from({ length: 5 }, (_, i) => create(i));
          const granted = sessions.map((): Reservation[] => []);
          for (const [now, { session: i, size, act }] of steps.entries()) {
            const session = sessions[i] as SessionMemory;
            const own = granted[i] as Reservation[];
            if (act === 'reserve')
              session.queue(size, { now, begin: (each) => own.push(each), refuse: () => {} });
            else if (act === 'release') own.shift()?.release();
            else if (act === 'hold') session.hold(size);
            else if (act === 'tick') session.handleTick(now + RESERVATION_PATIENCE_MS);
            else if (act === 'suspend') session.handleSuspended(size % 2 === 0 ? now : Infinity);
            else {
              session.close();
              sessions[i] = create(i);
              granted[i] = [];
            }
            await tick();
            expect(budget.used).toBe(sessions.reduce((sum, { used }) => sum + used, 0));
            for (const each of sessions) {
              expect(each.reserved).toBeGreaterThanOrEqual(0);
              expect(each.reserved <= 4 * MIB || granted.flat().length > 0).toBe(true);
            }
          }
          for (const session of sessions) session.close();
          expect([budget.used, budget.shares, budget.waiting]).toEqual([0, 0, 0]);
        },
      ),
    );
  });
});

describe('suspended sessions', () => {
  const suspended = (budget: MemoryBudget, principal: string, size: number, at: number, log: string[]) => {
    const session = open(budget, principal, `${principal} ${log.length} ${size}`);
    session.tryReserve(size);
    session.handleSuspended(at);
    session.onEvict = () => {
      log.push(`${principal} ${size / MIB}`);
      session.close();
    };
    return session;
  };

  it('keep 16 MiB together; the largest are evicted first, and small ones never', () => {
    const budget = new MemoryBudget(4000 * MIB);
    const log: string[] = [];
    for (const [i, size] of [1, 4, 12, 8].entries()) suspended(budget, `p${i}`, size * MIB, 0, log);
    for (let i = 0; i < 100; i++) suspended(budget, `q${i}`, MIB / 4, 0, log);
    budget.sweep(4_999);
    expect(log).toEqual([]);
    budget.sweep(5_000);
    expect(log).toEqual(['p2 12']);
    expect(budget.used).toBe(38 * MIB);
  });

  it('are evicted at once if others wait for memory, but only as many as necessary', async () => {
    const budget = new MemoryBudget(64 * MIB);
    const log: string[] = [];
    suspended(budget, 'a', 8 * MIB, 0, log);
    suspended(budget, 'a', 4 * MIB, 0, log);
    reserve(open(budget, 'a', 'here'), 8 * MIB, log, 'begun');
    budget.sweep(1);
    await tick();
    expect(log).toEqual(['a 8', 'begun']);
    expect(budget.used).toBe(12 * MIB);
  });

  it('that resume are not evicted', () => {
    const budget = new MemoryBudget(4000 * MIB);
    const log: string[] = [];
    const session = suspended(budget, 'a', 30 * MIB, 0, log);
    session.handleSuspended(Infinity);
    budget.sweep(100_000);
    expect(log).toEqual([]);
  });
});
