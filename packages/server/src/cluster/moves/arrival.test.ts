import { ProtocolError } from '@parlance/protocol';
import { MAX_SNAPSHOT_SIZE, MemoryBudget, newSessionId, SILENT_LOGGER } from '@parlance/protocol/internal';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ServerWire } from '../../http/ws.js';
import { ARRIVAL_MS, Arrival } from './arrival.js';
import { STEP_MS } from './move-channel.js';
import { decodeMoveMessage, type MoveMessage } from './move-message.js';

/** What a node takes of a session that another one hands over. */

const MIB = 1024 * 1024;
const SESSION = newSessionId('aaaaaa');

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function arriving(budget = new MemoryBudget(400 * MIB)) {
  const said: MoveMessage[] = [];
  const restored: number[] = [];
  const wire = {
    send: (data: Uint8Array | string) => void said.push(decodeMoveMessage(data)),
    close() {},
    terminate() {},
    listen() {},
  };
  const arrival = new Arrival(wire as Partial<ServerWire> as ServerWire, 'aaaaaa', {
    memory: budget,
    logger: SILENT_LOGGER,
    sessionMemory: MAX_SNAPSHOT_SIZE,
    leadOf: () => undefined,
    restore: (bytes) => {
      restored.push(bytes.length);
      throw new ProtocolError('unsupported', 'no session');
    },
    claim: async () => true,
    onOver() {},
  });
  const announce = (size: number) =>
    arrival.onMessage(JSON.stringify({ type: 'snapshot', session: SESSION, size, sent: 0, epoch: 0 }));
  return { arrival, said, restored, budget, announce };
}

describe('a session that arrives', () => {
  it('is restored from all of its bytes, however they are split', async () => {
    const { arrival, said, restored, budget, announce } = arriving();
    announce(200_001);
    for (const size of [1, 100_000, 100_000]) arrival.onMessage(new Uint8Array(size));
    await vi.advanceTimersByTimeAsync(0);
    expect([restored, said]).toEqual([[200_001], [expect.objectContaining({ code: 'unsupported' })]]);
    expect(budget.used).toBe(0);
  });

  it('is refused if it is too large', () => {
    const { said, announce } = arriving();
    announce(MAX_SNAPSHOT_SIZE + 1);
    expect(said).toMatchObject([{ type: 'refused', code: 'message_too_large' }]);
  });

  it('is refused if those of all nodes would take more than their part of the memory', () => {
    const budget = new MemoryBudget(400 * MIB);
    const all = Array.from({ length: 10 }, () => arriving(budget));
    for (const { announce } of all) announce(20 * MIB);
    const refused = all.filter(({ said }) => said.length > 0);
    expect([refused.length, budget.used]).toEqual([5, 100 * MIB]);
    expect(refused.map(({ said }) => said)).toEqual(
      refused.map(() => [expect.objectContaining({ code: 'over_budget' })]),
    );
  });

  it('is refused if nothing comes for some seconds', async () => {
    const { said, budget, announce } = arriving();
    announce(MIB);
    await vi.advanceTimersByTimeAsync(STEP_MS - 1);
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect([said, budget.used]).toEqual([[expect.objectContaining({ code: 'timeout' })], 0]);
  });

  it('is refused if it comes steadily and for too long', async () => {
    const { arrival, said, announce } = arriving();
    announce(MIB);
    for (let waited = 0; waited < ARRIVAL_MS - 2_000; waited += 2_000) {
      await vi.advanceTimersByTimeAsync(2_000);
      arrival.onMessage(new Uint8Array(1));
    }
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(said).toMatchObject([{ type: 'refused', code: 'timeout' }]);
  });
});
