import type { Metadata } from '@parlance/protocol';

export type RequestOutcome = 'answered' | 'failed' | 'cancelled';

/** Creates spans for requests. */
export interface Tracing {
  /**
   * Starts a span that continues the trace in the `traceparent` of the request's metadata; `undefined` if there is neither
   * a trace nor anything that records one.
   */
  start(metadata: Metadata): RequestSpan | undefined;
}

export interface RequestSpan {
  /** Runs `task` with the span as the active one. */
  run<T>(task: () => T): T;
  end(outcome: RequestOutcome, error?: unknown): void;
}

const TRACER = '@parlance/server';
const SPAN = 'parlance.request';

/** Under this name `@opentelemetry/api` keeps what an application has registered, in all of its copies of that version. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');

/** Whether the application has registered anything with OpenTelemetry, without which spans come to nothing. */
export const isTraced = (): boolean => REGISTERED in globalThis;

/** `undefined` if the optional package `@opentelemetry/api` is not installed. */
export async function loadTracing(): Promise<Tracing | undefined> {
  let api: typeof import('@opentelemetry/api');
  try {
    api = await import('@opentelemetry/api');
  } catch {
    return undefined;
  }
  const { context, propagation, ProxyTracerProvider, SpanKind, SpanStatusCode, trace } = api;
  const nobody = new ProxyTracerProvider().getDelegate();
  /** Whether an SDK is registered, which may happen at any time. */
  const hasSdk = (): boolean => {
    const provider = trace.getTracerProvider();
    return !(provider instanceof ProxyTracerProvider && provider.getDelegate() === nobody);
  };
  return {
    start(metadata) {
      const carrier = carrierOf(metadata);
      if (carrier === undefined && !hasSdk()) return undefined;
      const parent = propagation.extract(context.active(), carrier ?? {});
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

/** The metadata that a propagator reads; `undefined` if there are none. */
function carrierOf(metadata: Metadata): Record<string, string> | undefined {
  let carrier: Record<string, string> | undefined;
  for (const name of ['traceparent', 'tracestate', 'baggage']) {
    const value = metadata[name];
    if (typeof value !== 'string') continue;
    carrier ??= Object.create(null) as Record<string, string>;
    carrier[name] = value;
  }
  return carrier;
}
