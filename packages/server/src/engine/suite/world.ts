import { setTimeout as pause } from 'node:timers/promises';
import type { Engine, EngineConnection } from '../engine.js';
import type { ReplyChanges, ReplyLogs } from '../logs/logs.js';
import type { EngineStore } from '../store.js';
import { ok } from './asserts.js';

/** An engine that tests run against. */
export interface StartedEngine {
  /** The engine with a space of its own at each call, in which there is nothing yet: another prefix, schema or file. */
  create(): Engine;
  /** Is called after the last test. */
  close(): PromiseLike<void>;
  /** Faults that the caller can cause in the engine. Tests of faults that are missing here are skipped. */
  readonly faults?: EngineFaults | undefined;
}

/** Ends a fault. */
export type Heal = () => PromiseLike<void> | void;

/** Ways to make an engine fail, for all that {@link StartedEngine.create} has made. One fault is there at a time. */
export interface EngineFaults {
  /**
   * The engine answers nothing any more, over present connections and new ones. It may execute the calls when the fault
   * ends.
   */
  silence?(): PromiseLike<Heal>;
  /**
   * The engine executes calls over present connections, but answers are lost after so many more over each of them. New
   * connections work.
   */
  loseAnswers?(answers: number): PromiseLike<void>;
  /** Each answer comes so many milliseconds later. */
  slow?(ms: number): PromiseLike<Heal>;
  /** The engine has no room for anything more. */
  fill?(): PromiseLike<Heal>;
  /** Kills the engine, and starts it again with what it has kept. */
  restart?(): PromiseLike<void>;
  /** The engine continues without its data, or most of them. */
  loseData?(): PromiseLike<void>;
}

/** An empty space for one test. Its connections are closed after the test. */
export interface World {
  connect(): EngineConnection;
  connectLogs(): ReplyLogs;
  connectStore(): EngineStore;
  /** The engine of this space. */
  readonly engine: Engine;
  /** Another space of the same engine. */
  elsewhere(): World;
  fault<Name extends keyof EngineFaults>(name: Name): Required<EngineFaults>[Name];
  /** Reads again and again until `check` is content. */
  eventually<Value>(read: () => Promise<Value> | Value, check: (value: Value) => void): Promise<void>;
}

/** Tests by name. */
export type Tests = Readonly<Record<string, (world: World) => Promise<void>>>;

/** The test cannot be run with this engine. */
export class Skipped extends Error {}

/** Between two readings, in milliseconds. */
const INTERVAL_MS = 10;
/** A call is made, or a value read, at least so often: a machine may stand still for longer than any patience. */
const MIN_ATTEMPTS = 5;

/** @param patienceMs how long a test waits for an effect. */
export function worldOf(started: StartedEngine, patienceMs: number): World & AsyncDisposable {
  const open: { close(): Promise<void> }[] = [];
  let isFaulty = false;
  const isPatient: MayRepeat = (since, attempts) =>
    isEarly(since, attempts) || performance.now() < since + patienceMs;
  const mayRepeat: MayRepeat = (since, attempts) => !isFaulty && isPatient(since, attempts);
  const opened = <Each extends { close(): Promise<void> }>(each: Each): Each => {
    open.push(each);
    return each;
  };
  const spaceOf = (engine: Engine): World => ({
    connect: () => patient(opened(engine.connect()), mayRepeat),
    connectLogs() {
      const logs = engine.connectLogs?.();
      if (logs === undefined) throw new Skipped('the engine has no logs');
      return patient(opened(logs), mayRepeat);
    },
    connectStore() {
      const store = engine.connectStore?.();
      if (store === undefined) throw new Skipped('the engine cannot be looked at as a whole');
      return patient(opened(store), mayRepeat);
    },
    engine,
    elsewhere: () => spaceOf(started.create()),
    fault(name) {
      const fault = started.faults?.[name];
      if (fault === undefined) throw new Skipped(`the caller provides no fault "${name}"`);
      isFaulty = true;
      return fault.bind(started.faults) as Required<EngineFaults>[typeof name];
    },
    async eventually(read, check) {
      const since = performance.now();
      for (let attempts = 1; ; attempts++) {
        try {
          check(await read());
          return;
        } catch (error) {
          if (!isPatient(since, attempts)) throw error;
        }
        await pause(INTERVAL_MS);
      }
    },
  });
  return {
    ...spaceOf(started.create()),
    async [Symbol.asyncDispose]() {
      for (const each of open) await each.close();
    },
  };
}

/** Watches a reply. Resolves when it will be notified of every part from now on. */
export async function watching(logs: ReplyLogs, id: string, eventually: World['eventually']) {
  const news: ReplyChanges[] = [];
  const stop = logs.watch(id, (each) => news.push(each));
  await eventually(
    () => news.length,
    (count) => ok(count > 0, 'a watcher is not told that it hears of everything now'),
  );
  // It may say so more than once.
  await pause(100);
  news.length = 0;
  return { news, stop };
}

/** @param since when the call was made first. @param attempts how often it was made. */
type MayRepeat = (since: number, attempts: number) => boolean;
const isEarly: MayRepeat = (_since, attempts) => attempts < MIN_ATTEMPTS;

/**
 * Makes a call again that was not answered in time, which every engine allows: a machine with other work makes an engine late, and
 * only tests of faults are about that.
 */
export function patient<Each extends object>(each: Each, mayRepeat: MayRepeat = isEarly): Each {
  return new Proxy(each, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      const call = (values: readonly unknown[]): unknown => Reflect.apply(member, target, values);
      return (...values: readonly unknown[]) => {
        const result = call(values);
        if (name === 'table') return patient(result as object, mayRepeat);
        return result instanceof Promise ? untilInTime(result, () => call(values), mayRepeat) : result;
      };
    },
  });
}

async function untilInTime(first: Promise<unknown>, again: () => unknown, mayRepeat: MayRepeat) {
  const since = performance.now();
  let result: unknown = first;
  for (let attempts = 1; ; attempts++) {
    try {
      return await result;
    } catch (error) {
      const { code } = error as { readonly code?: unknown };
      if ((code !== 'timeout' && code !== 'connection_failed') || !mayRepeat(since, attempts)) throw error;
      await pause(INTERVAL_MS);
    }
    result = again();
  }
}
