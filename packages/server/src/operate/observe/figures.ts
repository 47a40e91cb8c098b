import type { Figure } from '../../server/features/feature.js';
import type { MetricKit } from './metric-kit.js';

/** Reads the figures of the features of a server. */
export function figureMetrics(figures: readonly Figure[], kit: MetricKit): () => void {
  const reads = figures.map(({ name, help, labels, isCount = false, read }) => {
    if (isCount) {
      const counter = kit.counter(name, help, labels);
      return () => {
        // The count is kept elsewhere.
        counter.reset();
        read((value, of) => (of === undefined ? counter.inc(value) : counter.inc(of, value)));
      };
    }
    const gauge = kit.gauge(name, help, labels);
    return () => {
      // A value that is not told any more is gone.
      gauge.reset();
      read((value, of) => (of === undefined ? gauge.set(value) : gauge.set(of, value)));
    };
  });
  return () => {
    for (const each of reads) each();
  };
}
