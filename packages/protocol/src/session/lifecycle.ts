/**
 * The life of a session: the names that the machine of `lifecycle-machine.ts` uses. The machine is the only definition
 * of which state follows which, for both ends; pages step by a table that is generated from it. The handshake inside the
 * state `closing` has a table of its own, in `closing.ts`. Data never enters the machine: the session keeps its state in
 * a field, because a transition costs microseconds and a field nanoseconds.
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

/** Everything but data that can happen to a session. */
export const LifecycleEvent = {
  /** The connection is open. */
  OPEN: 'OPEN',
  /** ACCEPT was sent or received, also one that resumes the session. */
  ACCEPT: 'ACCEPT',
  /** REJECT was sent or received. */
  REJECT: 'REJECT',
  /** The connection is closed or lost. */
  LOST: 'LOST',
  /** This end wants to close. */
  CLOSE: 'CLOSE',
  /** CLOSE was received. */
  PEER_CLOSE: 'PEER_CLOSE',
  /** Both ends have sent CLOSE. */
  CLOSE_DONE: 'CLOSE_DONE',
  /** The timer of the state has expired. */
  TIMEOUT: 'TIMEOUT',
  /** Either end has broken the protocol, or the session has failed. */
  VIOLATION: 'VIOLATION',
} as const;
export type LifecycleEvent = (typeof LifecycleEvent)[keyof typeof LifecycleEvent];

/** The duties of the session core when a state is entered. */
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

/** Decides between the transitions of one event. */
export interface LifecycleContext {
  readonly role: 'client' | 'server';
  /** Both ends agreed on resume. */
  readonly resumable: boolean;
}

/** The outcome of one step: the next state and the effects of entering it. */
export interface LifecycleStep {
  readonly state: LifecycleState;
  readonly effects: readonly LifecycleEffect[];
}
