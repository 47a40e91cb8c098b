import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MemoryBudget, RESERVATION_PATIENCE_MS, type Reservation, type SessionMemory } from './memory.js';

const MIB = 1024 * 1024;
const turn = () => Promise.resolve();

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

  it('may have one reservation that is larger than its limit', () => {
    const session = new MemoryBudget(Infinity).open(100);
    const large = session.tryReserve(1000);
    expect(large).toBeDefined();
    expect(session.tryReserve(1)).toBeUndefined();
    large?.release();
    expect(session.tryReserve(1)).toBeDefined();
  });

  it('gives room to those who wait in their order', () => {
    const session = new MemoryBudget(Infinity).open(100);
    const log: string[] = [];
    const first = session.tryReserve(80);
    reserve(session, 50, log, 'a');
    reserve(session, 10, log, 'b');
    // There would be room for it, but nothing overtakes.
    expect(session.tryReserve(10)).toBeUndefined();
    expect(log).toEqual([]);
    first?.release();
    expect(log).toEqual(['a', 'b']);
    first?.release();
    expect(session.used).toBe(60);
  });

  it('forgets a reservation that is given up while it waits, and gives back one that was granted', () => {
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

  it('refuses what has waited for too long, at the limit and not a millisecond before', () => {
    const session = new MemoryBudget(Infinity).open(100);
    const log: string[] = [];
    session.tryReserve(100);
    reserve(session, 1, log, 'a');
    session.handleTick(RESERVATION_PATIENCE_MS - 1);
    expect(log).toEqual([]);
    session.handleTick(RESERVATION_PATIENCE_MS);
    expect(log).toEqual(['a over_budget']);
  });

  it('lets what is patient wait for its own memory, and refuses it for that of others', () => {
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

  it('gives everything back when it ends, once, and begins nothing that waits', async () => {
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
    await turn();
    expect([budget.used, budget.shares, log]).toEqual([0, 0, []]);
    expect(session.tryReserve(1)).toBeDefined();
    expect(budget.used).toBe(0);
  });

  it('takes what it holds along when its shares become known', () => {
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
  it('gives a single principal a quarter of its budget, whatever its sessions, and not a byte more', () => {
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

  it('serves a newcomer at once, however many others take all that they can', () => {
    const budget = new MemoryBudget(256 * MIB);
    for (let i = 0; i < 200; i++) {
      const session = open(budget, `attacker ${i}`);
      while (session.tryReserve(512 * 1024) !== undefined);
    }
    expect(open(budget, 'newcomer').tryReserve(2 * MIB)).toBeDefined();
  });

  it('serves others when somebody gives back, also those of the same principal, and nobody is left waiting', async () => {
    const budget = new MemoryBudget(40 * MIB);
    const log: string[] = [];
    const first = open(budget, 'a', '1');
    const second = open(budget, 'a', '2');
    const held = first.tryReserve(10 * MIB);
    reserve(second, 5 * MIB, log, 'second');
    expect([log, budget.waiting]).toEqual([[], 1]);
    held?.release();
    await turn();
    expect([log, budget.waiting]).toEqual([['second'], 0]);
  });

  it('takes what windows hold into account, which no reservation is asked for', () => {
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

  it('never loses count, whatever sessions do', async () => {
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
            await turn();
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

  it('keep 16 MiB together, the largest go first, and none that holds little', () => {
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

  it('go at once where others wait for memory, and only as many as it takes', async () => {
    const budget = new MemoryBudget(64 * MIB);
    const log: string[] = [];
    suspended(budget, 'a', 8 * MIB, 0, log);
    suspended(budget, 'a', 4 * MIB, 0, log);
    reserve(open(budget, 'a', 'here'), 8 * MIB, log, 'begun');
    budget.sweep(1);
    await turn();
    expect(log).toEqual(['a 8', 'begun']);
    expect(budget.used).toBe(12 * MIB);
  });

  it('that are taken up again stay', () => {
    const budget = new MemoryBudget(4000 * MIB);
    const log: string[] = [];
    const session = suspended(budget, 'a', 30 * MIB, 0, log);
    session.handleSuspended(Infinity);
    budget.sweep(100_000);
    expect(log).toEqual([]);
  });
});
