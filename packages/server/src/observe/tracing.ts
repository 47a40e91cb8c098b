import type { Metadata } from '@parlance/protocol';

export type RequestOutcome = 'answered' | 'failed' | 'cancelled';

/** Creates spans for requests. */
export interface Tracing {
  /** Starts a span that continues the trace in the `traceparent` of the request's metadata. */
  start(metadata: Metadata): RequestSpan;
}

export interface RequestSpan {
  /** Runs `task` with the span as the active one. */
  run<T>(task: () => T): T;
  end(outcome: RequestOutcome, error?: unknown): void;
}

const TRACER = '@parlance/server';
const SPAN = 'parlance.request';

/** `undefined` if the optional package `@opentelemetry/api` is not installed. */
export async function loadTracing(): Promise<Tracing | undefined> {
  let api: typeof import('@opentelemetry/api');
  try {
    api = await import('@opentelemetry/api');
  } catch {
    return undefined;
  }
  const { context, propagation, SpanKind, SpanStatusCode, trace } = api;
  return {
    start(metadata) {
      const parent = propagation.extract(context.active(), carrierOf(metadata));
      const span = trace.getTracer(TRACER).startSpan(SPAN, { kind: SpanKind.SERVER }, parent);
      const active = trace.setSpan(parent, span);
      return {
        run: (task) => context.with(active, task),
        end(outcome, error) {
          span.setAttribute('parlance.outcome', outcome);
          // Only the name: an error message may quote the request.
          if (outcome === 'failed') {
            span.setStatus({ code: SpanStatusCode.ERROR });
            if (error instanceof Error) span.setAttribute('error.type', error.name);
          }
          span.end();
        },
      };
    },
  };
}

/** The metadata that a propagator reads. */
function carrierOf(metadata: Metadata): Record<string, string> {
  const carrier: Record<string, string> = Object.create(null);
  for (const name of ['traceparent', 'tracestate', 'baggage']) {
    const value = metadata[name];
    if (typeof value === 'string') carrier[name] = value;
  }
  return carrier;
}
