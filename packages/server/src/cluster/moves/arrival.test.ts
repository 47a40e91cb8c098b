import { ProtocolError } from '@parlance/protocol';
import { MAX_SNAPSHOT_SIZE, MemoryBudget, newSessionId, SILENT_LOGGER } from '@parlance/protocol/internal';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Arrival, refusalOf } from './arrival.js';
import { STEP_MS, TRANSFER_MS } from './handover.js';

/** A node takes a session that another one hands over, or refuses it. */

const MIB = 1024 * 1024;
const NOTHING = new Uint8Array(0);
const SESSION = newSessionId('aaaaaa');

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function arriving(budget = new MemoryBudget(400 * MIB)) {
  const said: unknown[][] = [];
  const restored: number[] = [];
  const claims: (() => Promise<boolean>)[] = [];
  const overs: Arrival[] = [];
  const arrival = new Arrival('aaaaaa', {
    memory: budget,
    logger: SILENT_LOGGER,
    sessionMemory: MAX_SNAPSHOT_SIZE,
    proxyOf: () => undefined,
    restore: async (bytes) => {
      restored.push(bytes.length);
      if (claims.length === 0) throw new ProtocolError('unsupported', 'no session');
      return {
        session: {} as never,
        begin: () => void restored.push(-1),
        discard: () => void restored.push(-2),
      };
    },
    claim: async () => await (claims.shift() as () => Promise<boolean>)(),
    answer: (type, ...fields) => void said.push([type, ...fields]),
    onArrived() {},
    onOver: (over) => void overs.push(over),
  });
  const announce = (size: unknown, session: unknown = SESSION) =>
    arrival.handle('snapshot', [session, size, 0, 0], NOTHING);
  const give = (size: number) => arrival.handle('bytes', [], new Uint8Array(size));
  return { arrival, said, restored, budget, announce, give, claims, overs };
}

describe('a session that arrives', () => {
  it('is restored from all of its bytes, however they are split', async () => {
    const { said, restored, budget, announce, give } = arriving();
    announce(200_001);
    for (const size of [1, 100_000, 100_000]) give(size);
    await vi.advanceTimersByTimeAsync(0);
    expect([restored, said]).toEqual([[200_001], [['refused', 'unsupported', 'no session']]]);
    expect(budget.used).toBe(0);
  });

  it('is refused if it is too large', () => {
    const { said, announce } = arriving();
    announce(MAX_SNAPSHOT_SIZE + 1);
    expect(said).toEqual([['refused', 'message_too_large', expect.any(String)]]);
  });

  it('is refused if those of all nodes would take more than their part of the memory', () => {
    const budget = new MemoryBudget(400 * MIB);
    const all = Array.from({ length: 10 }, () => arriving(budget));
    for (const { announce } of all) announce(20 * MIB);
    const refused = all.filter(({ said }) => said.length > 0);
    expect([refused.length, budget.used]).toEqual([5, 100 * MIB]);
    expect(refused.map(({ said }) => said)).toEqual(
      refused.map(() => [['refused', 'over_budget', expect.any(String)]]),
    );
  });

  it('is refused if nothing comes for some seconds', async () => {
    const { said, budget, announce } = arriving();
    announce(MIB);
    await vi.advanceTimersByTimeAsync(STEP_MS - 1);
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect([said, budget.used]).toEqual([[['refused', 'timeout', expect.any(String)]], 0]);
  });

  it('is refused if it comes steadily and for too long', async () => {
    const { said, announce, give } = arriving();
    announce(MIB);
    for (let waited = 0; waited < TRANSFER_MS - 2_000; waited += 2_000) {
      await vi.advanceTimersByTimeAsync(2_000);
      give(1);
    }
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(said).toEqual([['refused', 'timeout', expect.any(String)]]);
  });

  it('is taken once the engine says so, however often that has to be asked', async () => {
    const { said, restored, announce, give, claims, overs } = arriving();
    claims.push(
      () => Promise.reject(new Error('no answer')),
      async () => true,
    );
    announce(3);
    give(3);
    await vi.advanceTimersByTimeAsync(0);
    expect([said, restored]).toEqual([[], [3]]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect([said, restored, overs.length]).toEqual([[['taken']], [3, -1], 1]);
  });

  it('is refused if the node shuts down before the engine has answered', async () => {
    const { arrival, said, restored, announce, give, claims } = arriving();
    claims.push(() => Promise.reject(new Error('no answer')));
    announce(3);
    give(3);
    arrival.cancel();
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(0);
    expect([said, restored]).toEqual([[['refused', 'draining', expect.any(String)]], [3, -2]]);
  });

  it('stays where it was if the record names another node', async () => {
    const { said, restored, announce, give, claims } = arriving();
    claims.push(async () => false);
    announce(3);
    give(3);
    await vi.advanceTimersByTimeAsync(0);
    expect([said, restored]).toEqual([[['refused', 'invalid_argument', expect.any(String)]], [3, -2]]);
  });

  it('that is called off gives its memory back, and is answered no more', () => {
    const { arrival, said, budget, announce, give, overs } = arriving();
    announce(MIB);
    give(1);
    arrival.handleDropped();
    give(MIB);
    expect([said, budget.used, overs]).toEqual([[], 0, [arrival]]);
  });

  it('and is complete is decided by its record, also if it is called off', async () => {
    const { arrival, restored, announce, give, claims } = arriving();
    claims.push(async () => true);
    announce(3);
    give(3);
    arrival.handleDropped();
    await vi.advanceTimersByTimeAsync(0);
    expect(restored).toEqual([3, -1]);
  });

  it.each<[string, readonly (readonly [string, readonly unknown[], number?])[]]>([
    ['bytes first', [['bytes', [], 3]]],
    ['an answer', [['taken', []]]],
    ['a session of no cluster', [['snapshot', ['sess_1', 3, 0, 0]]]],
    ['a session that is a key of others', [['hold', ['agents']]]],
    ['no session', [['hold', []]]],
    ['a negative size', [['snapshot', [SESSION, -1, 0, 0]]]],
    ['half of what is to be said', [['snapshot', [SESSION, 3]]]],
    ['a fraction', [['snapshot', [SESSION, 3, 0.5, 0]]]],
    [
      'two sessions',
      [
        ['snapshot', [SESSION, 3, 0, 0]],
        ['snapshot', [SESSION, 3, 0, 0]],
      ],
    ],
    [
      'more than was announced',
      [
        ['snapshot', [SESSION, 3, 0, 0]],
        ['bytes', [], 4],
      ],
    ],
  ])('is refused: %s', (_what, messages) => {
    const { arrival, said, budget } = arriving();
    for (const [type, fields, size = 0] of messages) arrival.handle(type, fields, new Uint8Array(size));
    expect([said, budget.used]).toEqual([[['refused', 'bad_message', expect.any(String)]], 0]);
  });
});

it('a refusal quotes nothing of a fault, and has a length at most', () => {
  expect(refusalOf(new ProtocolError('over_budget', 'y'.repeat(300)))).toEqual([
    'over_budget',
    'y'.repeat(256),
  ]);
  expect(refusalOf(new TypeError('secret'))).toEqual(['internal', 'the node failed']);
});
