import { describe, expect, it } from 'vitest';
import { Drain } from './drain.js';

const MINUTE = 60_000;
const NO_REPLIES = { running: 0, stopAll() {} };

/** A drain that waits for the handler of one kept reply. */
function setUp() {
  const stopped: string[] = [];
  const replies = {
    running: 1,
    stopAll({ message }: Error) {
      stopped.push(message);
    },
  };
  const drain = new Drain(new Map(), replies, 0, Date.now() + MINUTE);
  return { drain, stopped };
}

const NOTHING = { left: 0, interrupted: 0, lost: 0 };
const AT_THE_DEADLINE = ['the server was drained'];

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
    const { drain, stopped } = setUp();
    let announce = () => {};
    const isAnnounced = new Promise<void>((resolve) => {
      announce = resolve;
    });
    const running = drain.run(MINUTE, isAnnounced);
    drain.finish();
    expect(stopped).toEqual([]);
    announce();
    expect(await running).toEqual(NOTHING);
    expect(stopped).toEqual(AT_THE_DEADLINE);
  });

  it('keeps the deadline if that has passed', () => {
    const deadline = Date.now() - MINUTE;
    const drain = new Drain(new Map(), NO_REPLIES, 0, deadline);
    drain.finish();
    expect(drain.progress.deadline).toBe(deadline);
  });
});
