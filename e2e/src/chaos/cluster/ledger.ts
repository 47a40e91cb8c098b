/**
 * The checker of a cluster: numbers all that users say and ask, and examines what they get and what the upstream was
 * asked, without knowing which node did it.
 */

/** The upstream's knowledge of a question. */
export interface Served {
  readonly id: string;
  /** Process ID of the node that asked last. */
  node: number;
  times: number;
  /** When a node closed the connection before the last part; Unix milliseconds. */
  leftAt: number | undefined;
}

export interface Asked {
  readonly user: User;
  readonly parts: number;
  got: number;
  /** The user has left the reply. */
  isLeft: boolean;
  isOver: boolean;
  failure: string | undefined;
}

export interface User {
  readonly name: string;
  /** The ID of its session. */
  readonly session: string;
  said: number;
  heard: number;
  /** Why its session ended although neither end closed it. */
  lost: string | undefined;
}

/** The facts about the nodes that the ledger needs to judge the rest. */
export interface Fates {
  /** Incarnations that were killed: their sessions may be lost. */
  readonly killed: ReadonlySet<string>;
  /** Until when a node that was told to stop may not abort a handler, by process ID; Unix milliseconds. */
  readonly deadlines: ReadonlyMap<number, number>;
  /** Process IDs of killed nodes, whose handlers ended with them. */
  readonly killedPids: ReadonlySet<number>;
}

/** Clocks and timers of two processes may differ by this much, in milliseconds. */
const CLOCK_SLACK_MS = 50;

export class Ledger {
  protected readonly users = new Map<string, User>();
  protected readonly asked = new Map<string, Asked>();
  protected readonly faults: string[] = [];
  /** Echoes and parts that arrived. */
  arrived = 0;
  #nextId = 0;

  get questions(): number {
    return this.asked.size;
  }

  /** Users whose sessions ended although neither end closed them. */
  get lost(): number {
    return [...this.users.values()].filter(({ lost }) => lost !== undefined).length;
  }

  // --- events of users

  opened(name: string, session: string): void {
    this.users.set(name, { name, session, said: 0, heard: 0, lost: undefined });
  }

  /** The session of a user was lost, or another one took its place. */
  lostSession(name: string, why: string): void {
    this.user(name).lost ??= `${why} at ${new Date().toISOString()}`;
  }

  /** The number of the next message. */
  say(name: string): number {
    return this.user(name).said++;
  }

  /** The last message was refused. */
  refused(name: string, why: string): void {
    const user = this.user(name);
    user.said--;
    if (user.lost === undefined) this.fault(name, `a message was refused: ${why}`);
  }

  /** @param text the number of a message, and how many of this session the application had got by then. */
  hear(name: string, text: string): void {
    const user = this.user(name);
    this.arrived++;
    const [number, count] = text.split(' ').map(Number);
    if (number !== user.heard)
      this.fault(name, `${order(number, user.heard)}: echo ${number}, not ${user.heard}`);
    else if (count !== user.heard + 1)
      this.fault(name, `forgotten: the application has counted ${count} messages, not ${user.heard + 1}`);
    user.heard = (number ?? user.heard) + 1;
  }

  /** Whether all echoes of a user have arrived, or never will. */
  isQuiet(name: string): boolean {
    const { said, heard, lost } = this.user(name);
    return lost !== undefined || heard >= said;
  }

  /** @returns the ID of the question. */
  ask(name: string, parts: number): string {
    const id = this.newId();
    const user = this.user(name);
    this.asked.set(id, { user, parts, got: 0, isLeft: false, isOver: false, failure: undefined });
    return id;
  }

  protected newId(): string {
    return `q${this.#nextId++}`;
  }

  part(id: string, text: string): void {
    const asked = this.question(id);
    this.arrived++;
    const number = Number(text);
    if (number !== asked.got)
      this.fault(asked.user.name, `${order(number, asked.got)}: part ${number} of ${id}, not ${asked.got}`);
    asked.got = number + 1;
  }

  /** The user reads the reply no further. */
  left(id: string): void {
    this.question(id).isLeft = true;
  }

  ended(id: string): void {
    const asked = this.question(id);
    asked.isOver = true;
    if (!asked.isLeft && asked.got !== asked.parts)
      this.fault(asked.user.name, `lost: ${id} ended after ${asked.got} of ${asked.parts} parts`);
  }

  failed(id: string, code: string): void {
    const asked = this.question(id);
    asked.isOver = true;
    asked.failure = code;
  }

  fault(name: string, what: string): void {
    this.faults.push(`${name}: ${what}`);
  }

  // --- checks

  /** Checks everything, after all users have stopped. */
  check(served: readonly Served[], fates: Fates): readonly string[] {
    for (const user of this.users.values()) this.#checkUser(user, fates);
    const byId = new Map(served.map((each) => [each.id, each]));
    for (const [id, asked] of this.asked) this.#checkQuestion(id, asked, byId.get(id), fates);
    for (const { id } of served) if (!this.asked.has(id)) this.fault('upstream', `${id} was never asked for`);
    return this.faults;
  }

  #checkUser({ name, session, said, heard, lost }: User, fates: Fates): void {
    if (isExcused(session, fates)) return;
    if (lost !== undefined) this.fault(name, `lost its session ${session}: ${lost}`);
    else if (heard !== said) this.fault(name, `lost: ${heard} of ${said} messages came back`);
  }

  #checkQuestion(id: string, asked: Asked, served: Served | undefined, fates: Fates): void {
    const { user, failure, isLeft, isOver } = asked;
    const { name } = user;
    const isLost = isExcused(user.session, fates);
    const times = served?.times ?? 0;
    if (times > 1) this.fault(name, `the upstream was asked ${times} times for ${id}`);
    const wasStopped = served?.leftAt !== undefined && served.leftAt >= this.#deadlineOf(served, fates);
    if (!isLost) {
      if (!isOver) this.fault(name, `stuck: ${id} after ${asked.got} of ${asked.parts} parts`);
      else if (failure !== undefined && !(wasStopped && failure === 'draining'))
        this.fault(name, `${id} failed with ${failure} after ${asked.got} of ${asked.parts} parts`);
      if (times === 0 && !isLeft) this.fault(name, `the upstream was never asked for ${id}`);
    }
    const wasAborted = served?.leftAt !== undefined && !isLeft && !isLost && !wasStopped;
    if (wasAborted && !fates.killedPids.has(served.node))
      this.fault(name, `the handler of ${id} was aborted before its deadline`);
  }

  #deadlineOf({ node }: Served, { deadlines }: Fates): number {
    return (deadlines.get(node) ?? Infinity) - CLOCK_SLACK_MS;
  }

  protected user(name: string): User {
    return this.users.get(name) as User;
  }

  protected question(id: string): Asked {
    return this.asked.get(id) as Asked;
  }
}

/** The node that began a session was killed; plain sessions end with their nodes. */
function isExcused(session: string, { killed }: Fates): boolean {
  return killed.has(incarnationOf(session));
}

/** The node that a session ID names. */
export function incarnationOf(session: string): string {
  return session.slice('sess_'.length, 'sess_'.length + 6);
}

function order(number: number | undefined, expected: number): string {
  return number !== undefined && number < expected ? 'doubled or late' : 'lost or early';
}
