import { describe, expect, it } from 'vitest';
import { INTERACTION_PLANTS, isOf } from './plant.js';

describe('a plant', () => {
  it('is found by what it makes, and by nothing else', () => {
    const made = {
      log: 'at 1.0: d1: follows q0 from 0, and read part 2 and not 0',
      ended: 'at 1.0: process 7: session.crashed: ProtocolError: the session was closed',
      repeat: 'at 1.0: d1.0: read number 2 of d0 (sess_ann) again, unmarked',
      forget: 'at 1.0: d0: the record of sess_ann was behind',
    };
    const others = [
      'at 1.0: d0: q1 is stuck after 1 of 3 parts',
      'at 1.0: process 7: session.crashed: Error',
    ];
    for (const plant of Object.keys(INTERACTION_PLANTS) as (keyof typeof made)[]) {
      const found = [...Object.values(made), ...others].filter((fault) => isOf(plant, fault));
      expect(found).toEqual([made[plant]]);
    }
    expect(isOf('log', 'd1: read "q0:0:2 " of q0 as part 0, and its requester "q0:0:1 "')).toBe(true);
  });
});
