import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { Drain } from './drain.js';
import type { DrainPart } from './parts/part.js';

const MINUTE = 60_000;

/** A drain that waits for the handler of one kept reply. */
function setUp(...others: readonly DrainPart[]) {
  const stopped: string[] = [];
  const replies = {
    running: 1,
    cut({ message }: Error) {
      stopped.push(message);
    },
    async finish() {
      stopped.push('finished');
    },
  };
  const drain = new Drain(new Map(), [...others, replies], 0, Date.now() + MINUTE, SILENT_LOGGER);
  return { drain, stopped };
}

const NOTHING = { left: 0, interrupted: 0, lost: 0 };
const AT_THE_DEADLINE = ['the server was drained', 'finished'];

describe('a drain that an operator finishes', () => {
  it('does at once what it does at its deadline', async () => {
    const { drain, stopped } = setUp();
    const running = drain.run(MINUTE);
    expect(drain.progress.deadline).toBeGreaterThan(Date.now());
    drain.finish();
    expect(drain.progress.deadline).toBeLessThanOrEqual(Date.now());
    expect(await running).toEqual(NOTHING);
    expect(stopped).toEqual(AT_THE_DEADLINE);
  });

  it('waits for nothing if other nodes did not know of it yet', async () => {
    let tell = () => {};
    const announced = new Promise<void>((resolve) => {
      tell = resolve;
    });
    const { drain, stopped } = setUp({ announce: () => announced });
    const running = drain.run(MINUTE);
    drain.finish();
    expect(stopped).toEqual([]);
    tell();
    expect(await running).toEqual(NOTHING);
    expect(stopped).toEqual(AT_THE_DEADLINE);
  });

  it('goes on if a part fails', async () => {
    const fault = () => {
      throw new Error('a fault');
    };
    const { drain, stopped } = setUp({ announce: fault, park: fault, cut: fault, finish: fault });
    const running = drain.run(MINUTE);
    drain.finish();
    expect(await running).toEqual({ ...NOTHING, moved: 0 });
    expect(stopped).toEqual(AT_THE_DEADLINE);
  });

  it('keeps the deadline if that has passed', () => {
    const deadline = Date.now() - MINUTE;
    const drain = new Drain(new Map(), [], 0, deadline, SILENT_LOGGER);
    drain.finish();
    expect(drain.progress.deadline).toBe(deadline);
  });
});
