/** What survives what: the one place that says it. The tests fail if a cell says otherwise, in either direction. */

export const EVENTS = {
  cut: 'the connection breaks, and the next one arrives at another node',
  reload: 'the page is loaded again, with `store`',
  'second device':
    'another device of the same user comes, with the agent ID of the first one if that has one',
  move: 'the node drains, and another one lives',
  'drain alone': 'the only node drains and closes, and is started again',
  kill: 'the node is killed (`kill -9`), and another one lives',
  'kill alone':
    'a process with an engine and without `nodes()` is killed (`kill -9`), and is started again on that engine',
  'empty Redis': 'Redis is killed, and starts again without data',
  failover: 'Redis fails over to a replica that lacks the last turns; the nodes live',
  'silent Redis': 'the connections to Redis die without a word; new ones work',
} as const;

export type Event = keyof typeof EVENTS;

export interface Failure {
  /** The code that an application gets. */
  readonly error: string;
  /** Why it cannot go on. */
  readonly why: string;
  /** The section that says so, as a link from `docs`. */
  readonly see: string;
}

export type Cell = { readonly goesOn: true } | Failure;
type Row = Readonly<Record<Event, Cell>>;

const YES: Cell = { goesOn: true };

const GOES_ON: Row = {
  cut: YES,
  reload: YES,
  'second device': YES,
  move: YES,
  'drain alone': YES,
  kill: YES,
  'kill alone': YES,
  'empty Redis': YES,
  failover: YES,
  'silent Redis': YES,
};

const IN_MEMORY: Failure = {
  error: 'session_lost',
  why: 'A plain session is in the memory of its node, and nowhere else when that has died.',
  see: 'CLUSTER.md#what-works-now-and-what-does-not-yet',
};
const LEFT: Failure = {
  error: 'session_lost',
  why: 'A plain session is in the memory of its node, and there is no other one that could take it.',
  see: 'guide/resume.md#what-survives-what',
};
const PAGE_IS_GONE: Failure = {
  error: 'session_closed',
  why: 'Only the page that asked can read the reply, and it is gone. The next one follows a kept reply, from where it stopped.',
  see: 'guide/resume.md#what-survives-what',
};
const TAKEN_OVER: Failure = {
  error: 'taken_over',
  why: 'An agent ID belongs to one session of a principal, and the newer one has it.',
  see: 'CLUSTER.md#what-works-now-and-what-does-not-yet',
};
const NOT_AGAIN: Failure = {
  error: 'interrupted',
  why: "The handler has died, and without `onLost('again')` it is not called twice: its effects might happen twice.",
  see: 'DURABLE.md#once-or-at-least-once',
};
const HANDLER_DIED: Failure = {
  error: 'interrupted',
  why: "The parts on record can be followed, and nothing can say the rest: a handler is called again only in a durable session with `onLost('again')`.",
  see: 'CLUSTER.md#kept-replies',
};
const DEADLINE: Failure = {
  error: 'draining',
  why: 'A handler that runs beyond the deadline is stopped, which is on record as the end of its reply. A drain moves no replies.',
  see: 'CLUSTER.md#kept-replies',
};
const PEER_STREAM: Failure = {
  error: 'interrupted',
  why: 'Replies of other agents pass through a node, and are on record nowhere.',
  see: 'DURABLE.md#what-survives-what',
};
const FORGOTTEN: Failure = {
  error: 'unknown_reply',
  why: 'Kept replies are in Redis, and Redis has lost them. The requester gets the whole reply.',
  see: 'CLUSTER.md#when-redis-fails',
};
const RECORD_LOST: Failure = {
  error: 'interrupted',
  why: 'The record of the reply is gone from Redis, or lacks parts that its node has written, so it ends. The requester gets the whole reply.',
  see: 'CLUSTER.md#when-redis-fails',
};

const PLAIN: Row = { ...GOES_ON, 'drain alone': LEFT, kill: IN_MEMORY, 'kill alone': IN_MEMORY };
const PLAIN_CALL: Row = { ...PLAIN, reload: PAGE_IS_GONE };
const DURABLE_CALL: Row = {
  ...GOES_ON,
  reload: PAGE_IS_GONE,
  'drain alone': NOT_AGAIN,
  kill: NOT_AGAIN,
  'kill alone': NOT_AGAIN,
};
const CALLED_AGAIN: Row = { ...GOES_ON, reload: PAGE_IS_GONE };
/** Of which the handler is not called again. */
const KEPT: Row = {
  ...GOES_ON,
  'drain alone': DEADLINE,
  kill: HANDLER_DIED,
  'kill alone': HANDLER_DIED,
  'empty Redis': FORGOTTEN,
  failover: RECORD_LOST,
};
const RECORD_ENDS = { 'empty Redis': RECORD_LOST, failover: RECORD_LOST };

export const MATRIX = {
  'plain messages': PLAIN,
  'durable messages': GOES_ON,
  'plain requests': PLAIN_CALL,
  'durable requests': DURABLE_CALL,
  "durable requests, `onLost('again')`": CALLED_AGAIN,
  'plain streams': PLAIN_CALL,
  'durable streams': DURABLE_CALL,
  "durable streams, `onLost('again')`": CALLED_AGAIN,
  'plain kept replies': KEPT,
  'durable kept replies': KEPT,
  "durable kept replies, `onLost('again')`": { ...GOES_ON, 'empty Redis': FORGOTTEN, failover: RECORD_LOST },
  'plain followers': { ...PLAIN_CALL, ...RECORD_ENDS },
  'durable followers': { ...CALLED_AGAIN, ...RECORD_ENDS },
  'plain messages between agents': { ...PLAIN, 'second device': TAKEN_OVER },
  'durable messages between agents': { ...GOES_ON, 'second device': TAKEN_OVER },
  'plain requests between agents': { ...PLAIN_CALL, 'second device': TAKEN_OVER },
  'durable requests between agents': {
    ...CALLED_AGAIN,
    'second device': TAKEN_OVER,
    'drain alone': PEER_STREAM,
    kill: PEER_STREAM,
    'kill alone': PEER_STREAM,
  },
  'plain groups': PLAIN,
  'durable groups': GOES_ON,
  'plain `session.data`': PLAIN,
  'durable `session.data`': GOES_ON,
} as const satisfies Readonly<Record<string, Row>>;

export type Feature = keyof typeof MATRIX;

/** The rows of each feature that a server has by default or by an option of its cluster, or why it has none. */
export const ROWS_OF: Readonly<Record<string, readonly Feature[] | string>> = {
  replies: ['plain kept replies', 'durable kept replies', 'plain followers', 'durable followers'],
  agents: ['plain messages between agents', 'plain requests between agents'],
  groups: ['plain groups', 'durable groups'],
  durable: ['durable messages', 'durable requests', 'durable streams', 'durable `session.data`'],
  owner: ['durable messages', 'durable kept replies'],
  nodes: ['plain messages', 'plain requests', 'plain streams', 'plain `session.data`'],
  link: 'Each row needs it.',
  resume: 'Each row needs it.',
  context: 'It saves bytes: what it has of a session goes with it, or begins anew.',
  metrics: 'It counts what happens at one node.',
  tracing: 'It holds nothing of a session.',
  tensors: 'A tensor under way fails, as DURABLE.md says; it has no row yet.',
};
