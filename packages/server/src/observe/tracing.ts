import type { Metadata } from '@parlance/protocol';

export type RequestOutcome = 'answered' | 'failed' | 'cancelled';

/** Spans for requests, where somebody traces. */
export interface Tracing {
  /** A span that continues the trace whose `traceparent` the request's metadata carry. */
  start(metadata: Metadata): RequestSpan;
}

export interface RequestSpan {
  /** Runs `task` with the span as the present one. */
  run<T>(task: () => T): T;
  end(outcome: RequestOutcome, error?: unknown): void;
}

const TRACER = '@parlance/server';
const SPAN = 'parlance.request';

/** `undefined` where the optional package `@opentelemetry/api` is not installed. */
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
          // The name alone: what an error says may be what the request said.
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

/** What a propagator reads: strings by name. */
function carrierOf(metadata: Metadata): Record<string, string> {
  const carrier: Record<string, string> = Object.create(null);
  for (const name of ['traceparent', 'tracestate', 'baggage']) {
    const value = metadata[name];
    if (typeof value === 'string') carrier[name] = value;
  }
  return carrier;
}
