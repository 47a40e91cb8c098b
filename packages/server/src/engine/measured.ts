import type { Engine } from './engine.js';

/** The outcome of a call: its promise was fulfilled, or rejected with an error of this code. */
export type CallOutcome = 'answered' | 'timeout' | 'connection_failed' | 'unsupported' | 'failed';

/** Is notified of each call of an engine when it is over. */
export interface CallObserver {
  /** @param call by its name in the interfaces of engines. */
  handleEngineCall(call: string, outcome: CallOutcome, seconds: number): void;
}

/** Returns the observer of the calls that are made now, if there is one. */
type Observer = () => CallObserver | undefined;

/** The same engine, whose calls are observed: those of its connections, their tables and its logs. */
export function measured(engine: Engine, observer: Observer): Engine {
  const { connectLogs } = engine;
  const same: Partial<Engine> = {
    connect() {
      const connection = engine.connect();
      return observed(connection, observer, {
        table: (name: string) => observed(connection.table(name), observer, {}),
      });
    },
    ...(connectLogs && { connectLogs: () => observed(connectLogs.call(engine), observer, {}) }),
  };
  return Object.assign(Object.create(engine) as Engine, same);
}

/** @param own methods in place of those of the object. */
function observed<Target extends object>(target: Target, observer: Observer, own: Partial<Target>): Target {
  const methods = new Map<PropertyKey, unknown>(Object.entries(own));
  // Not a proxy of the object itself, which may be frozen.
  return new Proxy({} as Target, {
    get(_, name) {
      const known = methods.get(name);
      if (known !== undefined) return known;
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function' || typeof name !== 'string') return value;
      const method = timed(value.bind(target) as Method, name, observer);
      methods.set(name, method);
      return method;
    },
  });
}

type Method = (...args: readonly unknown[]) => unknown;

function timed(method: Method, name: string, observer: Observer): Method {
  return (...args) => {
    const observing = observer();
    if (observing === undefined) return method(...args);
    const begun = performance.now();
    const result = method(...args);
    // Calls that open or watch something answer at once, and may continue for ever.
    if (!(result instanceof Promise) || UNTIMED.has(name)) return result;
    const end = (outcome: CallOutcome) =>
      observing.handleEngineCall(name, outcome, (performance.now() - begun) / 1000);
    result.then(
      () => end('answered'),
      (error: unknown) => end(outcomeOf(error)),
    );
    return result;
  };
}

/** Waits until there is something to tell, or ends the connection. */
const UNTIMED: ReadonlySet<string> = new Set(['changes', 'close']);

function outcomeOf(error: unknown): CallOutcome {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return OUTCOMES.find((each) => each === code) ?? 'failed';
}
const OUTCOMES: readonly CallOutcome[] = ['timeout', 'connection_failed', 'unsupported'];
