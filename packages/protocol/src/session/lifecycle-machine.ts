import { type initialTransition, setup, transition } from 'xstate';
import type {
  LifecycleContext,
  LifecycleEffect,
  LifecycleEvent,
  LifecycleState,
  LifecycleStep,
} from './lifecycle.js';

/**
 * The machine that says which state of a session follows which, and a step of it for Node; pages load
 * `lifecycle-table.ts` in its place. After a change, `npm run docs` writes the table again.
 *
 * A lost connection suspends a session if resume was agreed, and a closing session continues to close; a violation
 * always ends it.
 */

const effect = () => {};

export const sessionMachine = setup({
  types: {
    context: {} as LifecycleContext,
    events: {} as { type: LifecycleEvent },
    input: {} as LifecycleContext,
  },
  guards: {
    isClient: ({ context }) => context.role === 'client',
    isResumable: ({ context }) => context.resumable,
  },
  actions: {
    awaitHello: effect,
    awaitAccept: effect,
    establish: effect,
    suspend: effect,
    beginClosing: effect,
    end: effect,
    fail: effect,
  },
}).createMachine({
  id: 'session',
  initial: 'initial',
  context: ({ input }) => ({ role: input.role, resumable: input.resumable }),
  // An event that a state below does not expect is a bug of this program or a violation by the peer.
  on: { '*': '.failed' },
  states: {
    initial: {
      on: {
        OPEN: [{ guard: 'isClient', target: 'helloSent' }, { target: 'awaitingHello' }],
        LOST: 'closed',
        CLOSE: 'closed',
      },
    },
    helloSent: {
      entry: 'awaitAccept',
      on: { ACCEPT: 'established', REJECT: 'closed', CLOSE: 'closed', LOST: 'closed', TIMEOUT: 'failed' },
    },
    awaitingHello: {
      entry: 'awaitHello',
      on: { ACCEPT: 'established', REJECT: 'closed', CLOSE: 'closed', LOST: 'closed', TIMEOUT: 'failed' },
    },
    established: {
      entry: 'establish',
      on: {
        CLOSE: 'closing',
        PEER_CLOSE: 'closing',
        TIMEOUT: 'closing',
        LOST: [{ guard: 'isResumable', target: 'suspended' }, { target: 'closed' }],
        // A scan has blocked a message.
        REJECT: 'failed',
      },
    },
    suspended: {
      entry: 'suspend',
      // Connections open and close without a change of state until one of them is accepted.
      on: {
        OPEN: {},
        LOST: {},
        ACCEPT: 'established',
        REJECT: 'closed',
        CLOSE: 'closing',
        TIMEOUT: 'closed',
      },
    },
    closing: {
      entry: 'beginClosing',
      on: {
        // `reenter` is off: a second CLOSE changes nothing.
        CLOSE: {},
        PEER_CLOSE: {},
        CLOSE_DONE: 'closed',
        TIMEOUT: 'closed',
        // After a lost connection others may follow, so that closing can finish.
        LOST: [{ guard: 'isResumable' }, { target: 'closed' }],
        OPEN: { guard: 'isResumable' },
        ACCEPT: { guard: 'isResumable' },
        REJECT: { guard: 'isResumable', target: 'closed' },
      },
    },
    closed: {
      entry: 'end',
      on: { '*': {} },
    },
    failed: {
      entry: 'fail',
      on: { '*': {} },
    },
  },
});

type Snapshot = ReturnType<typeof initialTransition<typeof sessionMachine>>[0];

// A pure transition costs about 20 µs and depends on only a few small values, so the machine computes each one once
// per process, and sessions look it up: no actor and no memory per session.
const steps = new Map<string, LifecycleStep>();
const snapshots = new Map<string, Snapshot>();

/** The step that the machine takes from `state` on `event`. */
export function stepLifecycle(
  state: LifecycleState,
  event: LifecycleEvent,
  context: LifecycleContext,
): LifecycleStep {
  const key = `${context.role}/${context.resumable}/${state}/${event}`;
  let step = steps.get(key);
  if (step === undefined) {
    const [next, actions] = transition(sessionMachine, snapshotOf(state, context), { type: event });
    step = {
      state: next.value as LifecycleState,
      effects: actions.map((action) => action.type as LifecycleEffect),
    };
    steps.set(key, step);
  }
  return step;
}

function snapshotOf(state: LifecycleState, context: LifecycleContext): Snapshot {
  const key = `${context.role}/${context.resumable}/${state}`;
  let snapshot = snapshots.get(key);
  if (snapshot === undefined) {
    snapshot = sessionMachine.resolveState({ value: state, context }) as Snapshot;
    snapshots.set(key, snapshot);
  }
  return snapshot;
}
