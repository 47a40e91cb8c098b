/** One measured figure beside what it is measured against. */
export interface Row {
  /** What was measured, under which conditions. */
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** Name of the system or method that `value` is held against. */
  readonly baseline: string;
  /** `value` divided by the baseline's value in the same run. */
  readonly ratio: number;
  readonly better: 'higher' | 'lower';
  /** What is aimed at, and whether this run got there. Shown to people, not part of the JSON form. */
  readonly target?: Target | undefined;
}

export interface Target {
  readonly text: string;
  readonly met: boolean;
}

export interface BenchOptions {
  /** Fewer and shorter rounds: for a look, not for a verdict. */
  readonly quick: boolean;
  /** File with a chat, for benches that hold one. @default one made of what is installed */
  readonly conversation?: string | undefined;
}

/** What a file of a bench exports. */
export interface Bench {
  run(options: BenchOptions): AsyncIterable<Row>;
}

/** @param better which way the value of `unit` is good. */
export function compare(
  name: string,
  unit: string,
  better: Row['better'],
  value: number,
  baseline: { readonly name: string; readonly value: number },
  target?: (ratio: number) => Target | undefined,
): Row {
  const ratio = value / baseline.value;
  return { name, value, unit, baseline: baseline.name, ratio, better, target: target?.(ratio) };
}

export const atLeast = (bound: number) => (ratio: number) => ({ text: `>= ${bound}`, met: ratio >= bound });
export const atMost = (bound: number) => (ratio: number) => ({ text: `<= ${bound}`, met: ratio <= bound });
