import { describe, expect, it } from 'vitest';
import type { SessionWrite } from '../engine.js';
import type { RedisCalls } from './calls.js';
import { RedisSessions } from './sessions.js';

/** Commits that a replica has to have, over connections of which a test says when they are replaced. */

const WRITE: SessionWrite = {
  ...{ owner: 'aaaaaa', epoch: 0, number: 1, isFirst: true, ttlMs: 1_000 },
  ...{ set: new Map(), remove: [], isReplicated: true },
};

function start() {
  const waits: ((replicas: number) => void)[] = [];
  const calls = {
    canConfirm: true,
    wire: {} as object | undefined,
    runMany: async (_lane: unknown, _script: unknown, all: readonly unknown[]) =>
      all.map(() => ({ status: 'fulfilled', value: 'written' })),
    wait: () => new Promise((resolve) => waits.push(resolve)),
  };
  const sessions = new RedisSessions('test', calls as never as RedisCalls);
  const write = () =>
    sessions.writeSession('sess_one', WRITE).then(
      (outcome) => outcome,
      (error: Error) => error.message,
    );
  return { calls, waits, write };
}
const tick = () => new Promise((resolve) => setImmediate(resolve));
const ticks = async () => {
  for (let i = 0; i < 5; i++) await tick();
};

describe('a commit that a replica has to have', () => {
  it('is recorded when one has confirmed it', async () => {
    const { waits, write } = start();
    const written = write();
    await ticks();
    waits[0]?.(1);
    expect(await written).toBe('written');
    const refused = write();
    await ticks();
    waits[1]?.(0);
    expect(await refused).toContain('no replica');
  });

  it('is not recorded if the connection over which it was written is another one now', async () => {
    for (const next of [{}, undefined]) {
      const { calls, waits, write } = start();
      const written = write();
      await Promise.resolve();
      // Redis knows of no write over the new one, so that all replicas have all of them.
      await ticks();
      calls.wire = next;
      waits[0]?.(1);
      expect(await written).toContain('the connection to Redis was lost');
    }
  });

  it('shares the question with others, of which one is asked at a time', async () => {
    const { waits, write } = start();
    const first = [write(), write()];
    await ticks();
    expect(waits).toHaveLength(1);
    const later = [write(), write(), write()];
    await ticks();
    expect(waits).toHaveLength(1);
    waits[0]?.(1);
    expect(await Promise.all(first)).toEqual(['written', 'written']);
    await ticks();
    expect(waits).toHaveLength(2);
    waits[1]?.(1);
    expect(await Promise.all(later)).toEqual(['written', 'written', 'written']);
  });
});
