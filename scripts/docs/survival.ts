import {
  cellOf,
  ENGINE_EVENTS,
  ENGINES,
  type EngineName,
  EVENTS,
  type Event,
  type Failure,
  type Feature,
  hasEvent,
  MATRIX,
  NODE_EVENTS,
} from '../../e2e/src/survival/matrix.js';
import { table } from './markdown.js';

const ALL = Object.keys(ENGINES) as EngineName[];
const FEATURES = Object.keys(MATRIX) as Feature[];

/** Engines that say the same of an event. */
interface Column {
  readonly event: Event;
  readonly engines: readonly EngineName[];
}

const having = (event: Event) => ALL.filter((engine) => hasEvent(engine, event));

/** One column for each event, or several if engines differ. */
function columnsOf(event: Event): readonly Column[] {
  const columns = new Map<string, EngineName[]>();
  for (const engine of having(event)) {
    const cells = JSON.stringify(FEATURES.map((feature) => cellOf(engine, feature, event)));
    columns.set(cells, [...(columns.get(cells) ?? []), engine]);
  }
  return [...columns.values()].map((engines) => ({ event, engines }));
}

const titleOf = ({ event, engines }: Column) =>
  engines.length === having(event).length ? event : `${event}: ${engines.join(', ')}`;

/** The tables of survival, from the data of the tests. */
export function survivalTables(): ReadonlyMap<string, string> {
  /** The number of each reason, in the order in which a reader finds them. */
  const reasons = new Map<string, number>();
  const numberOf = ({ why, see }: Failure): number => {
    const reason = `${why} ([${see.replace(/#.*/, '') || 'above'}](${see}))`;
    const number = reasons.get(reason) ?? reasons.size + 1;
    reasons.set(reason, number);
    return number;
  };
  const matrixOf = (events: Partial<Record<Event, string>>) => {
    const columns = (Object.keys(events) as Event[]).flatMap(columnsOf);
    const rows = FEATURES.map((feature) => [
      feature,
      ...columns.map(({ event, engines }) => {
        const cell = cellOf(engines[0] as EngineName, feature, event);
        return 'goesOn' in cell ? 'continues' : `\`${cell.error}\` (${numberOf(cell)})`;
      }),
    ]);
    return table(['', ...columns.map(titleOf)], rows);
  };
  const events = Object.entries(EVENTS).map(([event, what]) => {
    const engines = having(event as Event);
    return [event, what, engines.length === ALL.length ? 'all' : engines.join(', ')];
  });
  const absent = ALL.flatMap((engine) => {
    const columns = ENGINES[engine];
    return 'why' in columns ? [`- ${engine}: ${columns.why}.`] : [];
  });
  return new Map([
    ['survival events', table(['event', 'what happens', 'engines'], events)],
    ['survival absent', absent.join('\n')],
    ['survival matrix', matrixOf(NODE_EVENTS)],
    ['survival engines', matrixOf(ENGINE_EVENTS)],
    ['survival reasons', [...reasons].map(([reason, number]) => `${number}. ${reason}`).join('\n')],
  ]);
}
