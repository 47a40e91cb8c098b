/**
 * The checker: numbers everything that one end of a session sends and examines what the other end receives,
 * without knowing how it got there.
 */

export type Side = 'client' | 'server';

/** One end of a session, as its application sees it. */
interface End {
  /** The application has this end of the session. */
  hasJoined: boolean;
  /** One-way messages that `send` accepted. */
  sent: number;
  /** One-way messages received; their numbers count up from 0. */
  received: number;
  /** Requests that the handler at this end received. */
  readonly asked: Set<number>;
  /** The error, if the session did not end in order. */
  error: string | undefined;
  /** The result of `close`, if this end closed. */
  unacknowledged: number | undefined;
}

export class Account {
  readonly faults: string[] = [];
  /** Messages, requests, replies and parts that arrived, at both ends. */
  arrived = 0;
  readonly #sessions = new Map<string, Record<Side, End>>();

  /** Sessions that were in use at both ends. */
  get sessions(): number {
    return [...this.#sessions.values()].filter(({ client, server }) => client.hasJoined && server.hasJoined)
      .length;
  }

  // --- events

  joined(session: string, side: Side): void {
    this.#end(session, side).hasJoined = true;
  }

  /** Returns the number of the next one-way message. */
  send(session: string, side: Side): number {
    return this.#end(session, side).sent++;
  }

  /** The last message was refused. */
  refused(session: string, side: Side): void {
    this.#end(session, side).sent--;
  }

  received(session: string, side: Side, number: number): void {
    const end = this.#end(session, side);
    this.arrived++;
    if (number !== end.received) {
      const what = number < end.received ? 'came again, or late,' : 'came too early';
      this.fault(session, side, `message ${number} ${what}, expected ${end.received}`);
    }
    end.received = number + 1;
  }

  /** The handler at `side` received a request. */
  asked(session: string, side: Side, number: number): void {
    const { asked } = this.#end(session, side);
    this.arrived++;
    if (asked.has(number)) this.fault(session, side, `request ${number} was handled twice`);
    asked.add(number);
  }

  /** A reply or a part arrived at `side`. */
  replied(session: string, side: Side, what: string, expected: string): void {
    this.arrived++;
    if (what !== expected) this.fault(session, side, `got ${what.slice(0, 40)} instead of ${expected}`);
  }

  closed(session: string, side: Side, unacknowledged: number): void {
    this.#end(session, side).unacknowledged = unacknowledged;
  }

  ended(session: string, side: Side, error: string | undefined): void {
    this.#end(session, side).error ??= error;
  }

  fault(session: string, side: Side, what: string): void {
    this.faults.push(`${session}, ${side}: ${what}`);
  }

  // --- checks

  /** Checks every session after everything is idle. */
  check(): readonly string[] {
    for (const [session, ends] of this.#sessions) {
      // A client may have given up connecting just when the server accepted it.
      if (!ends.client.hasJoined) continue;
      for (const side of ['client', 'server'] as const) {
        const from = ends[side];
        const to = ends[side === 'client' ? 'server' : 'client'];
        if (to.received > from.sent)
          this.fault(session, side, `${to.received} of ${from.sent} messages arrived`);
        // An end without an error, or one that closed without unacknowledged frames, claims that everything
        // arrived.
        const saysAll = from.error === undefined && (from.unacknowledged ?? 0) === 0;
        if (saysAll && to.received < from.sent)
          this.fault(session, side, `only ${to.received} of ${from.sent} messages arrived`);
      }
    }
    return this.faults;
  }

  #end(session: string, side: Side): End {
    let ends = this.#sessions.get(session);
    if (ends === undefined) {
      ends = { client: createEnd(), server: createEnd() };
      this.#sessions.set(session, ends);
    }
    return ends[side];
  }
}

function createEnd(): End {
  return {
    hasJoined: false,
    sent: 0,
    received: 0,
    asked: new Set(),
    error: undefined,
    unacknowledged: undefined,
  };
}
