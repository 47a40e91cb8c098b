import { MemoryBudget } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { LINK_QUOTA, LinkQuota, openNodesMemory } from './quota.js';

describe('what one node has under way', () => {
  it('is bounded by messages, bytes and requests, and has room again', () => {
    const quota = new LinkQuota({ messages: 2, bytes: 100, requests: 2 });
    expect([quota.tryHoldMessage(10), quota.tryHoldMessage(10), quota.tryHoldMessage(10)]).toEqual([
      true,
      true,
      false,
    ]);
    quota.releaseMessage(10);
    expect(quota.tryHoldMessage(90)).toBe(true);
    expect(quota.tryHold(1, 1)).toBe(false);
    quota.releaseMessage(90);
    expect([quota.tryHold(1, 45), quota.tryHold(2, 45), quota.tryHold(3, 0)]).toEqual([true, true, false]);
    quota.release(1, 20);
    quota.forget(2);
    expect(quota.tryHold(3, 65)).toBe(true);
    expect(quota.tryHold(4, 1)).toBe(false);
  });
});

it('what all nodes have under way shares a part of the memory of the process', () => {
  const MIB = 1024 * 1024;
  const budget = new MemoryBudget(400 * MIB);
  const [first, second] = [0, 1].map(() => new LinkQuota(LINK_QUOTA, openNodesMemory(budget))) as [
    LinkQuota,
    LinkQuota,
  ];
  const fill = (quota: LinkQuota, ref: number) => {
    for (let i = 0; ; i++) if (!quota.tryHold(ref + i, MIB)) return i;
  };
  const taken = [fill(first, 0), fill(second, 10_000)] as const;
  // A quarter, and a little that each connection has in any case.
  expect(taken[0]).toBeGreaterThan(90);
  expect(taken[0] + taken[1]).toBeLessThan(110);
  first.close();
  expect(fill(second, 20_000)).toBeGreaterThan(80);
  second.close();
  expect(budget.used).toBe(0);
});
