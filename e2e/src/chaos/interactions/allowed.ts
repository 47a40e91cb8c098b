/**
 * Which errors the documents allow for what has happened. An error without a row that fits is a fault, whatever its code.
 */

/** How long after it is over something still has effects: a lease, a drain, and reading through the engine for 10 s. */
export const AFTERMATH_MS = 15_000;

/** Something that happens to nodes, the engine and users, with those whom it happens to. */
export interface Happening {
  readonly kind:
    | 'killed'
    /** Told to drain; lasts until the process has ended. */
    | 'drained'
    /** Stopped, or cut off from the engine, for a while. */
    | 'paused'
    | 'parted'
    | 'engine'
    /** An agent has another page. */
    | 'reloaded'
    /** Another session has become the agent; lasts as long as the one that had been it. */
    | 'replaced';
  /** Unix milliseconds. */
  readonly from: number;
  to: number;
  /** The process ID of a node, or the name of an agent. */
  readonly whom: number | string | undefined;
}

/** A call, session or handler that has ended with an error. */
export interface Failure {
  readonly of:
    | 'request'
    /** A request to another agent. */
    | 'relayed'
    /** Following a reply, which may be tried again from the same position, and the end of that. */
    | 'following'
    | 'followed'
    | 'session'
    | 'send'
    /** Of messages that were not delivered. */
    | 'report'
    | 'handler';
  readonly code: string;
  /** Whether the session whose call it is, or in which the handler runs, is durable. */
  readonly isDurable: boolean;
  readonly session: string;
  /** Whether the handler is called again, as far as that is recorded. */
  readonly isAgain: boolean;
  /** A bound or the engine has ended the record of the reply before its end. */
  readonly isUnkept: boolean;
  /** When it began and ended; Unix milliseconds. */
  readonly from: number;
  /** When its handler was asked for, if that is another time: a reply that is followed keeps its end. @default from */
  readonly askedAt?: number | undefined;
  readonly to: number;
  /** Nodes that ran the handler, and nodes that had the session. */
  readonly handlers: readonly number[];
  readonly owners: readonly number[];
  /** The agent whose session it is. */
  readonly who: string;
  /** The question that it is about. */
  readonly question: string | undefined;
}

interface Row {
  readonly of: readonly Failure['of'][];
  readonly codes: readonly string[];
  readonly if?: (failure: Failure) => boolean;
  readonly after: readonly Happening['kind'][];
  /** The reply itself has ended, perhaps long before: who follows it later reads the same end. @default false */
  readonly isLasting?: boolean;
  /** Events that have to happen meanwhile, or shortly before, as well: to anyone. @default none */
  readonly beside?: readonly Happening['kind'][];
  /** Whom it has to happen to: a node that ran the handler or had the session, the agent itself, or anyone. */
  readonly at: 'handler' | 'owner' | 'self' | 'anyone';
  /** The document, and its section. */
  readonly says: string;
}

/** Events that end a node for others: a lease is over before others know that the node is gone. */
const NODE_LOST = ['killed', 'paused', 'parted'] as const;
const NODE_LEFT = [...NODE_LOST, 'drained'] as const;
const durable = ({ isDurable }: Failure) => isDurable;
const plain = ({ isDurable }: Failure) => !isDurable;

export const ALLOWED: readonly Row[] = [
  {
    of: ['request'],
    codes: ['interrupted', 'draining'],
    if: ({ isDurable, isAgain }) => isDurable && !isAgain,
    after: NODE_LEFT,
    at: 'handler',
    says: "DURABLE.md, What survives what: a reply with ifProcessDies('fail')",
  },
  {
    of: ['request'],
    codes: ['draining'],
    if: plain,
    after: ['drained'],
    at: 'handler',
    says: 'CLUSTER.md, Replacing a node: at the deadline',
  },
  {
    of: ['following'],
    codes: ['draining'],
    if: plain,
    after: ['drained'],
    beside: [...NODE_LOST, 'engine'],
    at: 'owner',
    says: 'CLUSTER.md, Replacing a node: at the deadline, as the session could not move before',
  },
  {
    of: ['session', 'request', 'relayed', 'following', 'send'],
    codes: ['session_lost'],
    if: plain,
    after: NODE_LOST,
    at: 'owner',
    says: 'CLUSTER.md, What works now: the owner dies, or is paused or unreachable for longer than its lease',
  },
  {
    of: ['session', 'request', 'relayed', 'following', 'send'],
    codes: ['session_lost'],
    if: plain,
    after: ['drained'],
    beside: [...NODE_LOST, 'engine'],
    at: 'owner',
    says: 'CLUSTER.md, Replacing a node: could not move by the deadline, as Redis or the other node did not answer',
  },
  {
    of: ['session'],
    codes: ['taken_over'],
    if: ({ from, to }) => to - from < AFTERMATH_MS,
    after: [...NODE_LEFT, 'engine'],
    at: 'anyone',
    says: 'CLUSTER.md, Not yet: a session that its client never heard of is registered later',
  },
  {
    of: ['request', 'relayed', 'following', 'send'],
    codes: ['taken_over'],
    after: ['replaced'],
    at: 'self',
    says: 'agents.md, AGT-3',
  },
  {
    of: ['relayed'],
    codes: ['interrupted', 'peer_gone'],
    if: durable,
    after: NODE_LEFT,
    at: 'anyone',
    says: 'DURABLE.md, What survives what: requests to and from other agents',
  },
  {
    of: ['relayed'],
    codes: ['peer_gone'],
    after: [...NODE_LEFT, 'reloaded'],
    at: 'anyone',
    says: 'agents.md, Relay: the session of the target ends; resume.md, REB-5',
  },
  {
    of: ['relayed'],
    codes: ['draining'],
    after: ['drained'],
    at: 'anyone',
    says: 'CLUSTER.md, Replacing a node: at the deadline',
  },
  {
    of: ['relayed'],
    codes: ['unknown_agent'],
    after: [...NODE_LEFT, 'reloaded', 'engine'],
    at: 'anyone',
    says: 'agents.md, Relay: an unknown agent; CLUSTER.md, Not yet: agents of a node that dies',
  },
  {
    of: ['report'],
    codes: ['unknown_agent', 'peer_gone'],
    after: [...NODE_LEFT, 'reloaded', 'engine'],
    at: 'anyone',
    says: 'agents.md, Delivery',
  },
  {
    of: ['following'],
    codes: ['interrupted', 'peer_gone'],
    if: durable,
    after: NODE_LEFT,
    at: 'owner',
    says: 'DURABLE.md, What survives what: replies that are being followed',
  },
  {
    of: ['following', 'followed'],
    codes: ['interrupted', 'draining'],
    if: ({ isAgain }) => !isAgain,
    after: NODE_LEFT,
    isLasting: true,
    at: 'handler',
    says: 'CLUSTER.md, Kept replies: the node of a kept reply dies, "and so do those who come later"; at the deadline of a drain',
  },
  {
    of: ['following', 'followed'],
    codes: ['timeout'],
    after: ['engine', 'parted', 'paused'],
    at: 'anyone',
    says: 'CLUSTER.md, Kept replies: through a slow or absent Redis',
  },
  {
    of: ['following', 'followed'],
    codes: ['timeout', 'interrupted', 'unknown_reply'],
    if: ({ isUnkept }) => isUnkept,
    after: ['engine', 'paused', 'parted'],
    isLasting: true,
    at: 'anyone',
    says: 'operate/redis.md, When Redis fails: for longer, the reply is no longer kept',
  },
  {
    of: ['request'],
    codes: ['interrupted'],
    if: (failure) => plain(failure) && failure.isUnkept,
    after: ['paused', 'parted'],
    at: 'handler',
    says: 'CLUSTER.md, Kept replies: if the node was only paused, its handler is aborted when it is back',
  },
  {
    of: ['handler'],
    codes: ['draining', 'session_closed'],
    after: ['drained'],
    at: 'handler',
    says: 'CLUSTER.md, Replacing a node; DURABLE.md, Draining and closing',
  },
  {
    of: ['handler'],
    codes: ['fenced', 'interrupted'],
    after: ['paused', 'parted', 'engine'],
    at: 'anyone',
    says: 'DURABLE.md, What survives what: and comes back to life',
  },
  {
    of: ['handler'],
    codes: ['interrupted'],
    if: durable,
    after: NODE_LEFT,
    at: 'anyone',
    says: 'DURABLE.md, What survives what: requests to and from other agents',
  },
  {
    of: ['handler'],
    codes: ['interrupted'],
    after: ['reloaded'],
    at: 'anyone',
    says: 'resume.md, REB-5',
  },
  {
    of: ['handler'],
    codes: ['cancelled'],
    after: [...NODE_LEFT, 'reloaded'],
    at: 'anyone',
    says: 'errors.md: given up, as the session of its requester has ended or the way to it is lost',
  },
  {
    of: ['handler'],
    // `session_closed` for a call that begins after that end.
    codes: ['taken_over', 'session_lost', 'session_closed'],
    after: ['reloaded', ...NODE_LOST],
    at: 'anyone',
    says: 'agents.md, AGT-3; errors.md',
  },
  {
    of: ['session'],
    codes: ['reloaded'],
    if: plain,
    after: NODE_LOST,
    at: 'owner',
    says: 'CLUSTER.md, What works now: the owner dies; the next page finds nothing to take up',
  },
  {
    of: ['session'],
    codes: ['reloaded'],
    if: plain,
    after: ['drained'],
    beside: [...NODE_LOST, 'engine'],
    at: 'owner',
    says: 'CLUSTER.md, Replacing a node: at the deadline, as the session could not move before; the next page finds nothing to take up',
  },
  {
    of: ['handler'],
    codes: ['session_closed'],
    after: ['reloaded'],
    at: 'self',
    says: 'errors.md: the session of the page that answers is closed',
  },
];

/** The row that allows a failure; `undefined` if none does. */
export function rowFor(failure: Failure, happenings: readonly Happening[]): Row | undefined {
  return ALLOWED.find(
    (row) =>
      row.of.includes(failure.of) &&
      row.codes.includes(failure.code) &&
      row.if?.(failure) !== false &&
      happenings.some(
        (happening) =>
          row.after.includes(happening.kind) &&
          concerns(row, felt(row, happening, happenings), failure) &&
          isBeside(row, happening, happenings),
      ),
  );
}

/** Whether the documents allow that something of this kind ends, whatever its error. */
export function mayEnd(call: Omit<Failure, 'code'>, happenings: readonly Happening[]): boolean {
  return ALLOWED.some(
    ({ of, codes }) =>
      of.includes(call.of) && codes.some((code) => rowFor({ ...call, code }, happenings) !== undefined),
  );
}

function isBeside({ beside }: Row, { from, to }: Happening, happenings: readonly Happening[]): boolean {
  return (
    beside === undefined ||
    happenings.some(
      (other) => beside.includes(other.kind) && other.from <= to && from <= other.to + AFTERMATH_MS,
    )
  );
}

/**
 * Known nodes stay known for as long as the engine fails (operate/redis.md, When Redis fails), so that what ends with its node may end
 * later then.
 */
function felt({ at }: Row, happening: Happening, happenings: readonly Happening[]): Happening {
  if (at !== 'owner') return happening;
  let { to } = happening;
  const failures = happenings.filter(({ kind }) => kind === 'engine').toSorted((a, b) => a.from - b.from);
  for (const failure of failures) if (failure.from <= to + AFTERMATH_MS) to = Math.max(to, failure.to);
  return { ...happening, to };
}

function concerns({ at, isLasting }: Row, { from, to, whom }: Happening, failure: Failure): boolean {
  const { askedAt = failure.from } = failure;
  const begun = isLasting === true || at === 'handler' ? askedAt : failure.from;
  if (from > failure.to || to + AFTERMATH_MS < begun) return false;
  switch (at) {
    case 'handler':
      // Without a line of its start it is not known which node ran it.
      return failure.handlers.length === 0 || failure.handlers.includes(whom as number);
    case 'owner':
      return failure.owners.includes(whom as number);
    case 'self':
      return whom === failure.who;
    case 'anyone':
      return true;
  }
}
