import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { getSimplePaths } from 'xstate/graph';
import { type LifecycleContext, LifecycleEvent, LifecycleState } from './lifecycle.js';
import * as machine from './lifecycle-machine.js';
import * as table from './lifecycle-table.js';

/** The table that pages step by, against the machine that it is generated from. */

const STATES = Object.values(LifecycleState);
const EVENTS = Object.values(LifecycleEvent);
const CONTEXTS: readonly LifecycleContext[] = (['client', 'server'] as const).flatMap((role) => [
  { role, resumable: false },
  { role, resumable: true },
]);
const UNKNOWN = [
  '',
  'UNKNOWN',
  'open',
  'OPEN.',
  'OPEN ',
  'constructor',
  '__proto__',
  '0',
] as string[] as LifecycleEvent[];

/** Steps both, requires that they agree, and returns the next state. */
function step(state: LifecycleState, event: LifecycleEvent, context: LifecycleContext): LifecycleState {
  const expected = machine.stepLifecycle(state, event, context);
  expect({ state, event, ...context, to: table.stepLifecycle(state, event, context) }).toEqual({
    state,
    event,
    ...context,
    to: expected,
  });
  return expected.state;
}

describe.each(CONTEXTS)('the lifecycle table of a $role, resumable: $resumable', (context) => {
  it('has the step and the effects of the machine for every event in every state', () => {
    for (const state of STATES) for (const event of [...EVENTS, ...UNKNOWN]) step(state, event, context);
  });

  it('agrees along every path of the machine that enters no state twice', () => {
    const paths = getSimplePaths(machine.sessionMachine, {
      input: context,
      events: EVENTS.map((type) => ({ type })),
    });
    expect(new Set(paths.map((path) => path.state.value)).size).toBe(context.resumable ? 7 : 6);
    for (const path of paths) {
      let state: LifecycleState = LifecycleState.INITIAL;
      for (const { event } of path.steps) {
        const { type } = event as { type: string };
        if (EVENTS.includes(type as LifecycleEvent)) state = step(state, type as LifecycleEvent, context);
      }
      expect(state).toBe(path.state.value);
    }
  });

  it('agrees on random sequences of events', () => {
    const events = fc.array(fc.constantFrom(...EVENTS, ...UNKNOWN), { maxLength: 40 });
    fc.assert(
      fc.property(fc.constantFrom(...STATES), events, (from, sequence) => {
        let state = from;
        for (const event of sequence) state = step(state, event, context);
      }),
      { numRuns: 500 },
    );
  });
});

describe('the lifecycle of a session whose offer to resume is agreed on halfway', () => {
  it('is the same by table and by machine', () => {
    const turns = fc.array(fc.tuple(fc.constantFrom(...EVENTS), fc.boolean()), { maxLength: 40 });
    fc.assert(
      fc.property(fc.constantFrom('client' as const, 'server' as const), turns, (role, sequence) => {
        let state: LifecycleState = LifecycleState.INITIAL;
        for (const [event, resumable] of sequence) state = step(state, event, { role, resumable });
      }),
      { numRuns: 500 },
    );
  });
});
