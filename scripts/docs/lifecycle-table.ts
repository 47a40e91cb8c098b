import type { LifecycleStep } from '../../packages/protocol/src/index.js';
import { LifecycleEvent, LifecycleState } from '../../packages/protocol/src/session/lifecycle.js';
import { stepLifecycle } from '../../packages/protocol/src/session/lifecycle-machine.js';

/** Walks the lifecycle machine over every role, resumable or not, every state and every event. */

export const LIFECYCLE_TABLE = 'packages/protocol/src/session/lifecycle-table.gen.ts';

/** An event that the machine does not know. */
const UNKNOWN = 'UNKNOWN' as LifecycleEvent;

/** The text of the file {@link LIFECYCLE_TABLE}. */
export function buildLifecycleTable(): string {
  const outcomes: string[] = [];
  const rows: string[] = [];
  // The order of lifecycle-table.ts.
  for (const role of ['server', 'client'] as const) {
    for (const resumable of [false, true]) {
      for (const state of Object.values(LifecycleState)) {
        const steps = [UNKNOWN, ...Object.values(LifecycleEvent)].map((event) =>
          stepLifecycle(state, event, { role, resumable }),
        );
        rows.push(steps.map((step) => indexOf(outcomes, step).toString(36)).join(''));
      }
    }
  }
  if (outcomes.length > 36) throw new Error('the table has one digit for an outcome');
  return `// Written by \`npm run docs\` from lifecycle-machine.ts; do not edit.

/** Outcomes of a step: the next state, and its effects. */
export const OUTCOMES = '${outcomes.join(',')}';

/**
 * For servers, servers that can resume, clients, clients that can resume: a row for each state. A row has the outcome, in
 * base 36, of an unknown event and of each event.
 */
export const STEPS =
${rows.map((row) => `  '${row}'`).join(' +\n')};
`;
}

/** The index of an outcome, which is added if it is new. */
function indexOf(outcomes: string[], { state, effects }: LifecycleStep): number {
  const outcome = [state, ...effects].join(' ');
  if (!outcomes.includes(outcome)) outcomes.push(outcome);
  return outcomes.indexOf(outcome);
}
