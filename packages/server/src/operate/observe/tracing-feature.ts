import type { Feature } from '../../server/features/feature.js';
import { instrument } from './instrument.js';
import { isTraced, loadTracing, type Tracing } from './tracing.js';

/** A span for each request, if the application has registered a tracer with `@opentelemetry/api`. On by default. */
export const tracing = (): Feature => ({
  name: 'tracing',
  after: ['metrics'],
  install() {
    let loading: Promise<void> | undefined;
    let loaded: Tracing | undefined;
    const load = () => {
      if (isTraced())
        loading ??= loadTracing().then((tracing) => {
          loaded = tracing;
        });
      return loading;
    };
    return {
      wrap: (next) =>
        instrument(
          next,
          () => undefined,
          () => loaded,
        ),
      start: load,
      // An application may register its tracer at any time.
      tick: () => void load(),
    };
  },
});
