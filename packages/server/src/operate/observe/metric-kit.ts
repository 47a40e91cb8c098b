import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Creates the metrics of one server in its registry, under names that begin with `parlance_`. */
export interface MetricKit {
  gauge<Label extends string>(name: string, help: string, labels?: readonly Label[]): Gauge<Label>;
  /** @param name without `_total`. */
  counter<Label extends string>(name: string, help: string, labels?: readonly Label[]): Counter<Label>;
  histogram<Label extends string>(
    name: string,
    help: string,
    buckets: readonly number[],
    labels?: readonly Label[],
  ): Histogram<Label>;
}

export function createMetricKit(registry: Registry): MetricKit {
  const registers = [registry];
  return {
    gauge: (name, help, labels = []) =>
      new Gauge({ name: `parlance_${name}`, help, labelNames: [...labels], registers }),
    counter: (name, help, labels = []) =>
      new Counter({ name: `parlance_${name}_total`, help, labelNames: [...labels], registers }),
    histogram: (name, help, buckets, labels = []) =>
      new Histogram({
        name: `parlance_${name}`,
        help,
        buckets: [...buckets],
        labelNames: [...labels],
        registers,
      }),
  };
}
