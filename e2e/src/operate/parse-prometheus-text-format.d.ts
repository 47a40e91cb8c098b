/** The part that is used here: the library has no types of its own. */
declare module 'parse-prometheus-text-format' {
  export interface Metric {
    readonly name: string;
    readonly help: string;
    readonly type: string;
    readonly metrics: readonly {
      readonly value?: string;
      readonly count?: string;
      readonly labels?: Readonly<Record<string, string>>;
    }[];
  }
  export default function parse(text: string): Metric[];
}
