import { EVENTS, type Event, type Failure, type Feature, MATRIX } from '../../e2e/src/survival/matrix.js';
import { table } from './markdown.js';

/** What survives what, from the data of the tests. */
export function survivalTables(): ReadonlyMap<string, string> {
  const events = Object.keys(EVENTS) as Event[];
  const features = Object.keys(MATRIX) as Feature[];
  /** The number of each reason, in the order in which a reader finds them. */
  const reasons = new Map<string, number>();
  const numberOf = ({ why, see }: Failure): number => {
    const reason = `${why} ([${see.replace(/#.*/, '')}](${see}))`;
    const number = reasons.get(reason) ?? reasons.size + 1;
    reasons.set(reason, number);
    return number;
  };
  const rows = features.map((feature) => [
    feature,
    ...events.map((event) => {
      const cell = MATRIX[feature][event];
      return 'goesOn' in cell ? 'goes on' : `\`${cell.error}\` (${numberOf(cell)})`;
    }),
  ]);
  return new Map([
    ['survival events', table(['event', 'what happens'], Object.entries(EVENTS))],
    ['survival matrix', table(['', ...events], rows)],
    ['survival reasons', [...reasons].map(([reason, number]) => `${number}. ${reason}`).join('\n')],
  ]);
}
