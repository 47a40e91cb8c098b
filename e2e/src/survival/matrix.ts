/** The matrix of survival: the one place that states it. The tests fail if a cell says otherwise, in either direction. */

/** Events of clients and nodes. */
export const NODE_EVENTS = {
  cut: 'the connection breaks, and the next one arrives at another node, if there is one',
  reload: 'the page is loaded again, with `store`',
  'second device':
    'another device of the same user comes, with the agent ID of the first one if that has one',
  move: 'the node drains, and another one lives',
  'drain alone': 'the only node drains and closes, and its process is started again',
  kill: 'the node is killed (`kill -9`), and another one lives',
  'kill alone':
    'a process with an engine and without `cluster()` is killed (`kill -9`), and is started again on that engine',
  'kill and knock':
    'the same at one address, at which clients knock while the process begins, when its engine takes the one before for dead already',
} as const;

/** Events of the engine. */
export const ENGINE_EVENTS = {
  'empty server': 'Redis or Postgres is killed, and starts again without data',
  failover: 'Redis or Postgres fails over to a replica that lacks the last commits; the nodes live',
  'silent server': 'the connections to Redis or Postgres die without a word; new ones work',
  'lost file': 'the process is killed (`kill -9`), and is started again without the file of SQLite',
  'full disk': 'the disk of the file takes nothing for a while, in which something has to be written',
} as const;

export const EVENTS = { ...NODE_EVENTS, ...ENGINE_EVENTS };
export type Event = keyof typeof EVENTS;

export interface Failure {
  /** The code that an application gets. */
  readonly error: string;
  /** Why it cannot continue. */
  readonly why: string;
  /** The section that says so, as a link from `docs`. */
  readonly see: string;
}

/** Which events an engine has, and why not the others. */
interface EngineColumns {
  readonly events: readonly Event[];
  readonly why?: string;
}

const AT_CLIENTS = ['cut', 'reload', 'second device'] as const;
const OF_SERVERS = {
  events: [
    ...AT_CLIENTS,
    'move',
    'drain alone',
    'kill',
    'kill alone',
    'kill and knock',
    'empty server',
    'failover',
    'silent server',
  ],
} as const satisfies EngineColumns;

export const ENGINES = {
  memory: {
    events: [...AT_CLIENTS, 'move', 'drain alone', 'kill alone'],
    why: 'its nodes share one process, so that each `kill` is a `kill alone`, after which there is nothing to knock for, and it can neither be emptied nor fall silent',
  },
  SQLite: {
    events: [...AT_CLIENTS, 'drain alone', 'kill alone', 'kill and knock', 'lost file', 'full disk'],
    why: 'one process has the file: there is no other node to move to, and no connection to the file that could break',
  },
  Redis: OF_SERVERS,
  Postgres: OF_SERVERS,
} as const satisfies Readonly<Record<string, EngineColumns>>;

export type EngineName = keyof typeof ENGINES;

export const hasEvent = (engine: EngineName, event: Event): boolean =>
  (ENGINES[engine].events as readonly Event[]).includes(event);

export type Cell = { readonly goesOn: true } | Failure;
type Row = Readonly<Record<Event, Cell>>;
/** Events that end the memory of a process, which no other engine has. */
type MemoryEvent = 'drain alone' | 'kill alone';

const YES: Cell = { goesOn: true };

const ALWAYS: Row = {
  cut: YES,
  reload: YES,
  'second device': YES,
  move: YES,
  'drain alone': YES,
  kill: YES,
  'kill alone': YES,
  'kill and knock': YES,
  'empty server': YES,
  failover: YES,
  'silent server': YES,
  'lost file': YES,
  'full disk': YES,
};

const IN_MEMORY: Failure = {
  error: 'session_lost',
  why: 'A plain session is in the memory of its node, and nowhere else when that has died.',
  see: 'CLUSTER.md#what-works-now-and-what-does-not-yet',
};
const LEFT: Failure = {
  error: 'session_lost',
  why: 'A plain session is in the memory of its node, and there is no other one that could take it.',
  see: '#in-short',
};
const PAGE_IS_GONE: Failure = {
  error: 'session_closed',
  why: 'Only the page that asked can read the reply, and it is gone. The next one follows a kept reply, from where it stopped.',
  see: '#in-short',
};
const TAKEN_OVER: Failure = {
  error: 'taken_over',
  why: 'An agent ID belongs to one session of a principal, and the newer one has it.',
  see: 'CLUSTER.md#what-works-now-and-what-does-not-yet',
};
const NOT_AGAIN: Failure = {
  error: 'interrupted',
  why: "The handler has died, and without `ifProcessDies('again')` it is not called twice: its effects might happen twice.",
  see: 'DURABLE.md#once-or-at-least-once',
};
const HANDLER_DIED: Failure = {
  error: 'interrupted',
  why: "The recorded parts can be followed, and no node can produce the rest: a handler is called again only in a durable session with `ifProcessDies('again')`.",
  see: 'CLUSTER.md#kept-replies',
};
const DEADLINE: Failure = {
  error: 'draining',
  why: 'A handler that runs beyond the deadline is stopped, which is recorded as the end of its reply. A drain moves no replies.',
  see: 'CLUSTER.md#kept-replies',
};
const PEER_STREAM: Failure = {
  error: 'interrupted',
  why: 'Replies of other agents pass through a node, and are recorded nowhere.',
  see: 'DURABLE.md#what-survives-what',
};
const FORGOTTEN: Failure = {
  error: 'unknown_reply',
  why: 'Kept replies are in the engine, and that has lost them. The requester gets the whole reply.',
  see: 'operate/redis.md#when-redis-fails',
};
const RECORD_LOST: Failure = {
  error: 'interrupted',
  why: 'The record of the reply is gone from the engine, or lacks parts that its node has written, so it ends. The requester gets the whole reply.',
  see: 'operate/redis.md#when-redis-fails',
};

const ENGINE_IS_GONE: Failure = {
  error: 'session_lost',
  why: 'The data of the engine are gone with the memory of the process, or with the file.',
  see: 'DURABLE.md#what-survives-what',
};
const REPLIES_ARE_GONE: Failure = {
  error: 'unknown_reply',
  why: 'Kept replies are gone with the memory of the process, or with the file.',
  see: 'DURABLE.md#what-survives-what',
};

/** Of durable sessions. */
const GOES_ON: Row = { ...ALWAYS, 'lost file': ENGINE_IS_GONE };
const PLAIN: Row = {
  ...ALWAYS,
  'drain alone': LEFT,
  kill: IN_MEMORY,
  'kill alone': IN_MEMORY,
  'kill and knock': IN_MEMORY,
  'lost file': IN_MEMORY,
};
const PLAIN_CALL: Row = { ...PLAIN, reload: PAGE_IS_GONE };
const DURABLE_CALL: Row = {
  ...GOES_ON,
  reload: PAGE_IS_GONE,
  'drain alone': NOT_AGAIN,
  kill: NOT_AGAIN,
  'kill alone': NOT_AGAIN,
  'kill and knock': NOT_AGAIN,
};
const CALLED_AGAIN: Row = { ...GOES_ON, reload: PAGE_IS_GONE };
/** Of which the handler is called again. */
const KEPT_AGAIN: Row = {
  ...ALWAYS,
  'empty server': FORGOTTEN,
  failover: RECORD_LOST,
  'lost file': REPLIES_ARE_GONE,
};
const KEPT: Row = {
  ...KEPT_AGAIN,
  'drain alone': DEADLINE,
  kill: HANDLER_DIED,
  'kill alone': HANDLER_DIED,
  'kill and knock': HANDLER_DIED,
};
const RECORD_ENDS = { 'empty server': RECORD_LOST, failover: RECORD_LOST };

export const MATRIX = {
  'plain messages': PLAIN,
  'durable messages': GOES_ON,
  'plain requests': PLAIN_CALL,
  'durable requests': DURABLE_CALL,
  "durable requests, `ifProcessDies('again')`": CALLED_AGAIN,
  'plain streams': PLAIN_CALL,
  'durable streams': DURABLE_CALL,
  "durable streams, `ifProcessDies('again')`": CALLED_AGAIN,
  'plain events': PLAIN_CALL,
  'durable events': CALLED_AGAIN,
  'plain kept replies': KEPT,
  'durable kept replies': KEPT,
  "durable kept replies, `ifProcessDies('again')`": KEPT_AGAIN,
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
    'kill and knock': PEER_STREAM,
  },
  'plain groups': PLAIN,
  'durable groups': GOES_ON,
  'plain `session.data`': PLAIN,
  'durable `session.data`': GOES_ON,
} as const satisfies Readonly<Record<string, Row>>;

export type Feature = keyof typeof MATRIX;

/** Cells of the memory of a process that are not as those of other engines. */
const IN_MEMORY_ONLY: Readonly<Record<'plain' | 'durable' | 'kept', Readonly<Record<MemoryEvent, Cell>>>> = {
  plain: { 'drain alone': LEFT, 'kill alone': IN_MEMORY },
  durable: { 'drain alone': ENGINE_IS_GONE, 'kill alone': ENGINE_IS_GONE },
  kept: { 'drain alone': REPLIES_ARE_GONE, 'kill alone': REPLIES_ARE_GONE },
};

/** @param event that the engine has. */
export function cellOf(engine: EngineName, feature: Feature, event: Event): Cell {
  if (engine !== 'memory' || (event !== 'drain alone' && event !== 'kill alone'))
    return MATRIX[feature][event];
  const kind = feature.includes('kept') ? 'kept' : feature.startsWith('durable') ? 'durable' : 'plain';
  return IN_MEMORY_ONLY[kind][event];
}

/** The rows of each feature that a server may have, or why it has none. */
export const ROWS_OF: Readonly<Record<string, readonly Feature[] | string>> = {
  replies: ['plain kept replies', 'durable kept replies', 'plain followers', 'durable followers'],
  agents: ['plain messages between agents', 'plain requests between agents'],
  groups: ['plain groups', 'durable groups'],
  events: ['plain events', 'durable events'],
  durable: ['durable messages', 'durable requests', 'durable streams', 'durable `session.data`'],
  'single-node': ['durable messages', 'durable kept replies'],
  cluster: ['plain messages', 'plain requests', 'plain streams', 'plain `session.data`'],
  link: 'Each row needs it.',
  resume: 'Each row needs it.',
  context: 'It saves bytes: what it has of a session goes with it, or begins anew.',
  metrics: 'It counts what happens at one node.',
  tracing: 'It holds nothing of a session.',
  tensors: 'A tensor under way fails, as DURABLE.md says; it has no row yet.',
  scan: 'It looks at each message as it passes, and holds none.',
  hooks: 'They run around a handler that is called, and are called again with it.',
  batching: 'It joins parts for some milliseconds before the session has them.',
  admin: 'It shows what happens at one node.',
  'http-stream': 'Each row is the same over it: it carries connections, and holds nothing of a session.',
  chat: 'Its answers are kept replies, which have rows; a WebSocket of it is lost with its node, and the page opens another one.',
};
