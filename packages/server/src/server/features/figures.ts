import type { Figure } from './feature.js';

/** A figure that is one number. */
export const one = (
  name: string,
  help: string,
  read: () => number,
  rest?: Pick<Figure, 'isCount' | 'isShown'>,
): Figure => ({ name, help, ...rest, read: (set) => set(read()) });

/** Numbers that only grow, by the values of a label. */
export const counts = (
  name: string,
  help: string,
  label: string,
  read: () => Readonly<Record<string, number>>,
): Figure => ({
  name,
  help,
  labels: [label],
  isCount: true,
  read(set) {
    for (const [value, count] of Object.entries(read())) set(count, { [label]: value });
  },
});
