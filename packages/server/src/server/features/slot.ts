/** An object with slots: a session of a server. */
export interface Slotted {
  slots: unknown[] | undefined;
}

/** A method, so that a slot of one kind of sessions is one of all. */
interface Create<State, Session> {
  create(session: Session): State;
}

/** The state that one feature keeps of each session. It goes with the session. */
export interface Slot<State, Session extends Slotted = Slotted> {
  /** The state, if the session has one. */
  peek(session: Slotted): State | undefined;
  /** The state, made if the session has none. */
  of(session: Session): State;
  set(session: Slotted, state: State): State;
}

export class SlotOfSessions<State, Session extends Slotted> implements Slot<State, Session> {
  readonly #index: number;
  readonly #create: Create<State, Session>['create'];
  readonly #count: () => number;

  /**
   * @param create makes the state when it is first needed.
   * @param count slots of all features together, once all are installed.
   */
  constructor(index: number, create: (session: Session) => State, count: () => number) {
    this.#index = index;
    this.#create = create;
    this.#count = count;
  }

  peek({ slots }: Slotted): State | undefined {
    return slots?.[this.#index] as State | undefined;
  }

  of(session: Session): State {
    return this.peek(session) ?? this.set(session, this.#create(session));
  }

  set(session: Slotted, state: State): State {
    // At its full length: an array that grows takes room for 17.
    session.slots ??= new Array<unknown>(this.#count()).fill(undefined);
    session.slots[this.#index] = state;
    return state;
  }
}
