import {
  type LifecycleContext,
  type LifecycleEffect,
  LifecycleEvent,
  LifecycleState,
  type LifecycleStep,
} from './lifecycle.js';
import { OUTCOMES, STEPS } from './lifecycle-table.gen.js';

/** The steps of the machine in `lifecycle-machine.ts` without the machine, for pages: it takes 13 kB (gzip). */

const STATES = Object.values(LifecycleState);
const EVENTS = Object.values(LifecycleEvent);
const outcomes = OUTCOMES.split(',').map((outcome): LifecycleStep => {
  const [state, ...effects] = outcome.split(' ');
  return { state: state as LifecycleState, effects: effects as LifecycleEffect[] };
});

/** The step that the machine takes from `state` on `event`. */
export function stepLifecycle(
  state: LifecycleState,
  event: LifecycleEvent,
  { role, resumable }: LifecycleContext,
): LifecycleStep {
  const context = (role === 'client' ? 2 : 0) + (resumable ? 1 : 0);
  const row = context * STATES.length + STATES.indexOf(state);
  // The first column is for events that the machine does not know.
  const at = row * (EVENTS.length + 1) + EVENTS.indexOf(event) + 1;
  return outcomes[Number.parseInt(STEPS[at] as string, 36)] as LifecycleStep;
}
