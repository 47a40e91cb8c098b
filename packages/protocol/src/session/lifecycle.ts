import { type initialTransition, setup, transition } from 'xstate';

/**
 * The life of a session: one machine for both ends, the only place that knows which state follows
 * which. Data never enters it; the session core mirrors the state into a field that the data path
 * reads, because a transition costs microseconds and a field nanoseconds.
 *
 * Losing the connection suspends a session where resume was agreed, and leaves one closing that closes;
 * a violation always destroys it.
 */

export const LifecycleState = {
  INITIAL: 'initial',
  HELLO_SENT: 'helloSent',
  AWAITING_HELLO: 'awaitingHello',
  ESTABLISHED: 'established',
  SUSPENDED: 'suspended',
  CLOSING: 'closing',
  CLOSED: 'closed',
  FAILED: 'failed',
} as const;
export type LifecycleState = (typeof LifecycleState)[keyof typeof LifecycleState];

/** Everything that can happen to a session apart from data. */
export const LifecycleEvent = {
  /** The connection is open. */
  OPEN: 'OPEN',
  /** ACCEPT was sent or received; also the recovered one of a resume. */
  ACCEPT: 'ACCEPT',
  /** REJECT was sent or received. */
  REJECT: 'REJECT',
  /** The connection is gone. */
  LOST: 'LOST',
  /** This end wants to close. */
  CLOSE: 'CLOSE',
  /** CLOSE was received. */
  PEER_CLOSE: 'PEER_CLOSE',
  /** Both ends have said CLOSE. */
  CLOSE_DONE: 'CLOSE_DONE',
  /** The state's timer ran out. */
  TIMEOUT: 'TIMEOUT',
  /** The peer or this end broke the protocol. */
  VIOLATION: 'VIOLATION',
} as const;
export type LifecycleEvent = (typeof LifecycleEvent)[keyof typeof LifecycleEvent];

/** What entering a state asks of the session core. */
export const LifecycleEffect = {
  AWAIT_HELLO: 'awaitHello',
  AWAIT_ACCEPT: 'awaitAccept',
  ESTABLISH: 'establish',
  SUSPEND: 'suspend',
  BEGIN_CLOSING: 'beginClosing',
  END: 'end',
  FAIL: 'fail',
} as const;
export type LifecycleEffect = (typeof LifecycleEffect)[keyof typeof LifecycleEffect];

/** What decides between transitions of one event. */
export interface LifecycleContext {
  readonly role: 'client' | 'server';
  /** Both ends agreed on resume. */
  readonly resumable: boolean;
}

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
  // What no state below expects is a fault of this program or a violation by the peer.
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
        // A scan blocks what was sent.
        REJECT: 'failed',
      },
    },
    suspended: {
      entry: 'suspend',
      // Connections come and go without a change of state until one of them is accepted.
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
        // A connection that is lost meanwhile may be followed by others, so that closing can finish.
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

/** The outcome of one step: the state that follows and what entering it asks for. */
export interface LifecycleStep {
  readonly state: LifecycleState;
  readonly effects: readonly LifecycleEffect[];
}

type Snapshot = ReturnType<typeof initialTransition<typeof sessionMachine>>[0];

// A pure transition costs about 20 µs and depends on three small values only, so each is computed
// by the machine once per process and looked up from then on: no actor and no heap per session.
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
