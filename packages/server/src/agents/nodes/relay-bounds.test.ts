import { describe, expect, it } from 'vitest';
import { readAgentState } from '../move-state.js';

describe('the state of an agent that moves', () => {
  const counter = { counts: [], hasForgotten: false, last: 0 };
  const good = { frames: [], pending: [], counter, heard: [] };

  it('is read as it was written', () => {
    const state = { ...good, frames: [3], heard: [['sess_a', 4]], pending: [['a', null, 2]] };
    expect(readAgentState(JSON.stringify(state))).toEqual({
      ...state,
      pending: [['a', undefined, 2]],
      stated: undefined,
      watch: undefined,
    });
  });

  it.each([
    '',
    '[]',
    '{}',
    JSON.stringify({ ...good, frames: [-1] }),
    JSON.stringify({ ...good, frames: 1 }),
    JSON.stringify({ ...good, pending: [['a', 1]] }),
    JSON.stringify({ ...good, pending: [['a'.repeat(1_025), 1, 1]] }),
    JSON.stringify({ ...good, counter: { ...counter, hasForgotten: 1 } }),
    JSON.stringify({ ...good, counter: { ...counter, last: -1 } }),
    JSON.stringify({ ...good, heard: [['sess_a', 1.5]] }),
    JSON.stringify({ ...good, heard: [['a'.repeat(1_025), 1]] }),
    JSON.stringify({ ...good, watch: { stream: 'x', sent: [] } }),
    JSON.stringify({ ...good, stated: { agents: 1 } }),
    JSON.stringify({ ...good, stated: { agents: 'x'.repeat(32 * 1_024 + 1) } }),
  ])('is refused if it is malformed: %s', (text) => {
    expect(() => readAgentState(text)).toThrow(expect.objectContaining({ code: 'bad_message' }));
  });
});
