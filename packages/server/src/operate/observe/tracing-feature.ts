import type { Feature } from '../../server/parts/part.js';
import { instrument } from './instrument.js';
import { loadTracing, type Tracing } from './tracing.js';

/** A span for each request, if the package `@opentelemetry/api` is installed and a tracer is registered. On by default. */
export const tracing = (): Feature => ({
  name: 'tracing',
  after: ['metrics'],
  install() {
    let loaded: Tracing | undefined;
    return {
      wrap: (next) =>
        instrument(
          next,
          () => undefined,
          () => loaded,
        ),
      async start() {
        loaded = await loadTracing();
      },
    };
  },
});
