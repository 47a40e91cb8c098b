import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  type ContextManager,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  trace,
} from '@opentelemetry/api';
import type { RequestContext } from '@parlance/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { instrument } from './instrument.js';
import { loadTracing, type RequestOutcome } from './tracing.js';
import { tracing } from './tracing-feature.js';

/** A minimal tracer that records its spans. */
interface Recorded {
  name: string;
  parent: SpanContext | undefined;
  attributes: Record<string, unknown>;
  status: unknown;
  ended: number;
}
let spans: Recorded[] = [];

const storage = new AsyncLocalStorage<Context>();
const contexts: ContextManager = {
  active: () => storage.getStore() ?? ROOT_CONTEXT,
  with: (active, task, self, ...args) => storage.run(active, () => task.apply(self as never, args)),
  bind: (_active, target) => target,
  enable: () => contexts,
  disable: () => contexts,
};

beforeEach(() => {
  spans = [];
  context.setGlobalContextManager(contexts);
  propagation.setGlobalPropagator({
    fields: () => ['traceparent'],
    inject: () => {},
    extract(active, carrier) {
      const [, traceId, spanId] = ((carrier as Record<string, string>)['traceparent'] ?? '').split('-');
      if (traceId === undefined || spanId === undefined) return active;
      return trace.setSpanContext(active, { traceId, spanId, traceFlags: 1, isRemote: true });
    },
  });
  trace.setGlobalTracerProvider({
    getTracer: () => ({
      startSpan(name: string, _options: unknown, parent: Context) {
        const recorded: Recorded = {
          name,
          parent: trace.getSpanContext(parent),
          attributes: {},
          status: undefined,
          ended: 0,
        };
        spans.push(recorded);
        return {
          spanContext: () => ({ traceId: 'f'.repeat(32), spanId: String(spans.length), traceFlags: 1 }),
          setAttribute(key: string, value: unknown) {
            recorded.attributes[key] = value;
          },
          setStatus(status: unknown) {
            recorded.status = status;
          },
          end() {
            recorded.ended++;
          },
        } as unknown as Span;
      },
      startActiveSpan: () => {
        throw new Error('not used');
      },
    }),
  });
});
afterEach(() => {
  context.disable();
  propagation.disable();
  trace.disable();
});

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

async function setUp(handler: Parameters<typeof instrument>[0]) {
  const tracing = await loadTracing();
  const outcomes: RequestOutcome[] = [];
  const observer = { handleRequest: (outcome: RequestOutcome) => void outcomes.push(outcome) };
  const measured = instrument(
    handler,
    () => observer,
    () => tracing,
  );
  const controller = new AbortController();
  const run = (metadata = {}) =>
    measured({} as never, { metadata, signal: controller.signal } as unknown as RequestContext);
  return { run, controller, outcomes };
}

describe('a request', () => {
  it('has a span that continues the trace of its metadata and is active in every part of the handler', async () => {
    const seen: unknown[] = [];
    const look = () => seen.push(trace.getSpan(context.active())?.spanContext().spanId);
    const { run, outcomes } = await setUp(async function* () {
      look();
      yield 'a';
      await new Promise((resolve) => setTimeout(resolve, 1));
      look();
      yield 'b';
    });
    const parts: unknown[] = [];
    for await (const part of run({ traceparent: TRACEPARENT }) as AsyncIterable<unknown>) {
      expect(spans[0]?.ended).toBe(0);
      parts.push(part);
    }
    expect(parts).toEqual(['a', 'b']);
    expect(seen).toEqual(['1', '1']);
    expect(spans).toEqual([
      {
        name: 'parlance.request',
        parent: expect.objectContaining({
          traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
          spanId: '00f067aa0ba902b7',
        }),
        attributes: { 'parlance.outcome': 'answered' },
        status: undefined,
        ended: 1,
      },
    ]);
    expect(outcomes).toEqual(['answered']);
  });

  it.each([
    [
      'throws',
      () => {
        throw new RangeError('secret');
      },
    ],
    ['rejects', () => Promise.reject(new RangeError('secret'))],
    [
      'throws between parts',
      async function* () {
        yield 'a';
        throw new RangeError('secret');
      },
    ],
  ])('that %s fails once, and its span does not quote the error', async (_how, handler) => {
    const { run, outcomes } = await setUp(handler as never);
    const consume = async () => {
      const reply = run();
      if (typeof reply === 'object' && reply !== null && Symbol.asyncIterator in reply)
        for await (const _ of reply as AsyncIterable<unknown>);
      else await reply;
    };
    await expect(consume()).rejects.toThrow(RangeError);
    expect(outcomes).toEqual(['failed']);
    expect(spans[0]).toMatchObject({ ended: 1, attributes: { 'error.type': 'RangeError' } });
    expect(JSON.stringify(spans)).not.toContain('secret');
  });

  it('that is cancelled counts as cancelled, and its generator returns', async () => {
    let isLeft = false;
    const { run, controller, outcomes } = await setUp(async function* () {
      try {
        for (;;) yield 'on and on';
      } finally {
        isLeft = true;
      }
    });
    for await (const _part of run() as AsyncIterable<unknown>) {
      controller.abort();
      break;
    }
    expect([isLeft, outcomes, spans[0]?.ended]).toEqual([true, ['cancelled'], 1]);
  });

  it('is passed straight to the handler if it is neither measured nor traced', () => {
    const handler = () => 'as it is';
    const plain = instrument(
      handler,
      () => undefined,
      () => undefined,
    );
    expect(plain({} as never, {} as never)).toBe('as it is');
  });

  it('asks whether it was cancelled without making a signal for that', async () => {
    const { outcomes } = await setUp(() => '');
    const measured = instrument(
      () => 'answered',
      () => ({ handleRequest: (outcome) => void outcomes.push(outcome) }),
      () => undefined,
    );
    for (const isCancelled of [false, true]) {
      const context = {
        metadata: {},
        isCancelled,
        get signal(): AbortSignal {
          throw new Error('nobody has asked for the signal');
        },
      };
      await measured({} as never, context as unknown as RequestContext);
    }
    expect(outcomes).toEqual(['answered', 'cancelled']);
  });

  it('has no span if it belongs to no trace and nothing records one', async () => {
    const tracing = await loadTracing();
    expect(tracing?.start({})).toBeDefined();
    trace.disable();
    expect(tracing?.start({})).toBeUndefined();
    expect(tracing?.start({ traceparent: TRACEPARENT })).toBeDefined();
  });

  it('is traced from the second on in which the application registers a tracer', async () => {
    const name = Symbol.for('opentelemetry.js.api.1');
    const registered = Reflect.get(globalThis, name);
    Reflect.deleteProperty(globalThis, name);
    const part = tracing().install({} as never);
    const handler = part.wrap?.(() => 'answer');
    const ask = () =>
      handler?.({} as never, { metadata: {}, isCancelled: false } as unknown as RequestContext);
    await part.start?.();
    expect([ask(), spans]).toEqual(['answer', []]);
    Reflect.set(globalThis, name, registered);
    part.tick?.();
    await part.start?.();
    expect([await ask(), spans.map(({ name }) => name)]).toEqual(['answer', ['parlance.request']]);
  });

  it('is not traced if the package is not installed', async () => {
    vi.resetModules();
    vi.doMock('@opentelemetry/api', () => {
      throw new Error('Cannot find package');
    });
    const fresh = await import('./tracing.js');
    expect(await fresh.loadTracing()).toBeUndefined();
    vi.doUnmock('@opentelemetry/api');
  });
});
