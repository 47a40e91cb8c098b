import { expect, it } from 'vitest';
import { MemoryBudget } from '../base/memory-budget.js';
import { MemoryAccount } from './memory-account.js';

const MIB = 1024 * 1024;

/** A session that holds what `channel` and `core` say. @param limit of the process. */
function createAccount(limit: number, memoryKeys: readonly string[] = []) {
  const budget = new MemoryBudget(limit);
  const channel = {
    openStreams: 0,
    packedBytes: 0,
    isHeld: false,
    holdCredit(isHeld: boolean) {
      channel.isHeld = isHeld;
    },
  };
  const core = { state: 'established', heldBytes: 0, channel };
  const host = {
    core,
    options: { memory: budget, limits: { sessionMemory: 32 * MIB }, clock: { now: () => 0 } },
    memoryKeys,
    waitingMessages: 0,
    pump() {},
    abort: (error: unknown) => expect.fail(String(error)),
    crash: (error: unknown) => expect.fail(String(error)),
  };
  return { account: new MemoryAccount(host as never), budget, core, channel };
}

it('a session holds what its context keeps packed, as long as that stays', () => {
  const { account, budget, channel } = createAccount(64 * MIB);
  account.update();
  expect(budget.used).toBe(0);
  channel.packedBytes = 3 * MIB;
  account.update();
  expect(budget.used).toBe(3 * MIB);
  channel.packedBytes = 0;
  account.update();
  expect(budget.used).toBe(0);
});

it('a session whose packed context takes the memory of the process gets no more credit until there is some', () => {
  const { account, channel, core } = createAccount(2 * MIB);
  core.heldBytes = MIB;
  channel.packedBytes = MIB - 128 * 1024;
  account.update();
  expect(channel.isHeld).toBe(false);
  channel.packedBytes = 2 * MIB;
  account.update();
  expect(channel.isHeld).toBe(true);
  channel.packedBytes = 0;
  account.update();
  expect(channel.isHeld).toBe(false);
});

it('a session that holds more than its limit has room for the body that it holds', () => {
  const { account, budget, core, channel } = createAccount(1_024 * MIB, ['principal p']);
  core.heldBytes = 40 * MIB;
  account.update();
  expect([channel.isHeld, account.memory.reserved]).toEqual([false, 0]);
  const whole = account.memory.tryReserve(80 * MIB);
  expect(whole?.size).toBe(80 * MIB);
  expect(account.memory.tryReserve(1)).toBeUndefined();
  whole?.release();
  core.heldBytes = 0;
  account.update();
  expect(budget.used).toBe(0);
});

it('an account that is over counts nothing that is asked for later', () => {
  const { account, budget } = createAccount(64 * MIB, ['principal p']);
  account.close();
  account.memory.charge(MIB);
  expect(account.memory.tryReserve(MIB)).toBeDefined();
  let begun = 0;
  account.memory.queue(MIB, { now: 0, begin: () => begun++ });
  expect(begun).toBe(1);
  expect([budget.used, budget.shares]).toEqual([0, 0]);
});
