import { inTurn, isFull } from '../../../scripts/extent.js';
import { ENGINES, type EngineName, type Event, hasEvent } from './matrix.js';

/** Which columns of which engines a run has: Redis and SQLite each time, and some of the others in turns. */

/** Events that happen in one world beside each other, each to clients of its own. */
export type Columns = readonly Event[];

export interface EngineRun {
  readonly engine: EngineName;
  readonly columns: readonly Columns[];
}

const CLIENTS: Columns = ['cut', 'reload', 'second device'];

function runOf(engine: EngineName, events: readonly Event[] = ENGINES[engine].events): EngineRun {
  const others = events.filter((event) => !CLIENTS.includes(event));
  const atClients = CLIENTS.filter((event) => events.includes(event));
  return {
    engine,
    columns: [...(atClients.length > 0 ? [atClients] : []), ...others.map((event) => [event])],
  };
}

const ALWAYS: readonly EngineRun[] = [runOf('Redis'), runOf('SQLite')];
const TURNS = [
  runOf('Postgres', [...CLIENTS, 'move']),
  runOf('memory', [...CLIENTS, 'move']),
  runOf('Postgres', ['drain alone', 'kill']),
  runOf('memory', ['drain alone', 'kill alone']),
  runOf('Postgres', ['kill alone', 'empty server']),
  runOf('Postgres', ['failover', 'silent server']),
  runOf('Postgres', ['kill and knock']),
] as const;

export const columnsOfRun = (): readonly EngineRun[] => [...ALWAYS, ...(isFull ? TURNS : [inTurn(TURNS)])];

/** Those of all turns together. */
export const COLUMNS_OF_TURNS: readonly EngineRun[] = [...ALWAYS, ...TURNS];

/** One or two nodes; 0 is a process that is not a node of a cluster. */
export function nodesFor(engine: EngineName, [event]: Columns): number {
  if (!hasEvent(engine, 'move') || event === 'kill alone' || event === 'kill and knock') return 0;
  return event === 'drain alone' ? 1 : 2;
}
