/** One measured figure and its baseline. */
export interface Row {
  /** The measured quantity, and its conditions. */
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** The system or method that `value` is compared to. */
  readonly baseline: string;
  /** `value` divided by the baseline's value from the same run. */
  readonly ratio: number;
  readonly better: 'higher' | 'lower';
  /** The first and the last quartile of `value` over the windows of the run. */
  readonly quartiles?: readonly [number, number] | undefined;
  /** The goal, and whether this run met it. Shown in the table, not part of the JSON form. */
  readonly target?: Target | undefined;
}

export interface Target {
  readonly text: string;
  readonly met: boolean;
}

export interface BenchOptions {
  /** Fewer and shorter rounds: for a first impression, not for conclusions. */
  readonly quick: boolean;
  /** A file with a chat, for benches that need one. @default a chat made of installed READMEs */
  readonly conversation?: string | undefined;
  /** Lists what a page's scripts consist of, and measures nothing else. @default false */
  readonly modules?: boolean | undefined;
  /** Measures only how smoothly a page shows long answers. @default false */
  readonly reading?: boolean | undefined;
}

/** The exports of a bench file. */
export interface Bench {
  run(options: BenchOptions): AsyncIterable<Row>;
  /** Measures as well; what it returns is printed in place of rows, unless JSON is asked for. */
  text?(options: BenchOptions): Promise<string>;
}

/** @param better whether more or less of `unit` is good. */
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
