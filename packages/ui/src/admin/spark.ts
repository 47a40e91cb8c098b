import { draw } from '../shared/dom.js';

/** A line without axes, as wide as its place; the text beside it says what it means. */

const [WIDTH, HEIGHT] = [200, 26];

/** @param lines each with its class; the first one has an area beneath it. */
export function spark(
  lines: readonly (readonly [name: string, values: readonly (number | null)[]])[],
): SVGElement {
  const svg = draw('svg', {
    class: 'spark',
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: 'none',
    'aria-hidden': 'true',
  });
  const top = Math.max(1e-9, ...lines.flatMap(([, values]) => values.map((value) => value ?? 0)));
  for (const [index, [name, values]] of lines.entries()) {
    const runs = runsOf(values, top);
    if (index === 0)
      svg.append(
        draw('path', {
          class: `area ${name}`,
          d: runs
            .map(
              (run) => `M${run[0]?.[0]} ${HEIGHT}L${run.map(text).join('L')}L${run.at(-1)?.[0]} ${HEIGHT}Z`,
            )
            .join(''),
        }),
      );
    svg.append(
      draw('path', { class: `line ${name}`, d: runs.map((run) => `M${run.map(text).join('L')}`).join('') }),
    );
  }
  return svg;
}

type Place = readonly [x: number, y: number];
const text = ([x, y]: Place) => `${x.toFixed(1)} ${y.toFixed(1)}`;

/** Places of values that follow each other without one that is unknown. */
function runsOf(values: readonly (number | null)[], top: number): Place[][] {
  const runs: Place[][] = [];
  let run: Place[] | undefined;
  for (const [i, value] of values.entries()) {
    if (value === null) run = undefined;
    else {
      if (run === undefined) {
        run = [];
        runs.push(run);
      }
      run.push([(i / Math.max(1, values.length - 1)) * WIDTH, HEIGHT - 1 - (value / top) * (HEIGHT - 3)]);
    }
  }
  return runs;
}
