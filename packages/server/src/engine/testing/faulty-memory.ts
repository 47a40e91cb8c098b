import { setTimeout as pause } from 'node:timers/promises';
import { ProtocolError } from '@parlance/protocol';
import { ENGINE_TIMEOUT_MS, type Engine, type EngineConnection, type NodeList } from '../engine.js';
import type { ReplyLogs } from '../logs/logs.js';
import { memoryCluster } from '../memory.js';
import type { EngineStore } from '../store.js';
import type { EngineFaults, StartedEngine } from '../suite/tests.js';

/** The behaviour of this engine while something is wrong with it. A plant breaks some of it. */
export interface Behaviour {
  /** How long a call waits for a silent engine, in milliseconds. */
  readonly silentMs: number;
  /** How long it waits for a slow one. */
  readonly slowMs: number;
  readonly keepsData: boolean;
  readonly tellsLoss: boolean;
  /** Whether a full engine refuses a write and executes it nevertheless. */
  readonly writesWhenFull: boolean;
  /** Whether an export continues after an answer was lost. */
  readonly resumesExports: boolean;
}

const RIGHT: Behaviour = {
  silentMs: ENGINE_TIMEOUT_MS,
  slowMs: ENGINE_TIMEOUT_MS,
  keepsData: true,
  tellsLoss: true,
  writesWhenFull: false,
  resumesExports: true,
};

const READING = /^(find|read|named|list|shared|follow|prove|isVolatile|changes|withdraw)/;
/** Methods that do not wait for an answer. */
const UNGUARDED = new Set(['watch', 'listen', 'table', 'close']);
type Call = (...args: never[]) => unknown;

/** An engine in memory that can be made to fail in every way that the suite knows. */
export function faultyMemory(behaviour: Partial<Behaviour> = {}): StartedEngine {
  const { silentMs, slowMs, keepsData, tellsLoss, writesWhenFull, resumesExports } = {
    ...RIGHT,
    ...behaviour,
  };
  /** Grows when data is lost. */
  let generation = 0;
  let silence: Promise<void> | undefined;
  let delayMs = 0;
  let isFull = false;
  const open = new Set<{ answersLeft: number }>();
  const late = () => new ProtocolError('timeout', 'no answer');

  async function call(name: string, state: { answersLeft: number }, run: () => unknown): Promise<unknown> {
    if (silence !== undefined && (await Promise.race([silence, pause(silentMs, 'late')])) === 'late')
      throw late();
    if (delayMs > 0) await pause(Math.min(delayMs, slowMs));
    if (delayMs > slowMs) throw late();
    const isRefused = isFull && !READING.test(name);
    if (isRefused && !writesWhenFull) throw new ProtocolError('connection_failed', 'no room');
    const result = await run();
    if (isRefused) throw new ProtocolError('connection_failed', 'no room');
    if (state.answersLeft-- > 0) return result;
    // The connection is replaced.
    state.answersLeft = Infinity;
    throw late();
  }

  /** @param target as it is now. */
  function guarded<Target extends object>(
    target: () => Target,
    state: { answersLeft: number },
    own: object = {},
  ): Target {
    return new Proxy(own as Target, {
      get(_, name) {
        const found = Reflect.get(own, name) ?? Reflect.get(target(), name);
        if (typeof found !== 'function' || UNGUARDED.has(String(name))) return found;
        return (...args: never[]) => {
          const method = (Reflect.get(own, name) ?? Reflect.get(target(), name)) as Call;
          return call(String(name), state, () => method.apply(target(), args));
        };
      },
    });
  }

  function create(): Engine {
    const spaces: Engine[] = [];
    const engine = () => {
      spaces[generation] ??= memoryCluster();
      return spaces[generation] as Engine;
    };
    const opened = () => {
      const state = { answersLeft: Infinity };
      open.add(state);
      return state;
    };
    return {
      connect() {
        const state = opened();
        let announcedIn: number | undefined;
        const link = () => engine().connect();
        const own: Pick<EngineConnection, 'renew' | 'find' | 'withdraw' | 'table'> = {
          async renew(...args) {
            const hasForgotten = tellsLoss && announcedIn !== undefined && announcedIn !== generation;
            announcedIn = generation;
            const list: NodeList = await link().renew(...args);
            return { ...list, hasForgotten };
          },
          async find(incarnation) {
            if (tellsLoss && announcedIn !== undefined && announcedIn !== generation)
              throw new ProtocolError('connection_failed', 'the nodes are forgotten');
            return await link().find(incarnation);
          },
          async withdraw(incarnation) {
            announcedIn = undefined;
            await link().withdraw(incarnation);
          },
          table: (name) => guarded(() => link().table(name), state),
        };
        return guarded(link, state, own);
      },
      connectLogs: () => guarded(() => engine().connectLogs?.() as ReplyLogs, opened()),
      connectStore() {
        const state = opened();
        const store = engine().connectStore?.() as EngineStore;
        async function* exports() {
          for await (const item of store.exports()) {
            if (state.answersLeft-- <= 0 && !resumesExports) throw late();
            yield item;
          }
        }
        return { ...store, exports };
      },
    };
  }

  const faults: Required<EngineFaults> = {
    async silence() {
      let end = () => {};
      silence = new Promise((resolve) => {
        end = resolve;
      });
      return () => {
        silence = undefined;
        end();
      };
    },
    async loseAnswers(answers) {
      for (const state of open) state.answersLeft = answers;
    },
    async slow(ms) {
      delayMs = ms;
      return () => {
        delayMs = 0;
      };
    },
    async fill() {
      isFull = true;
      return () => {
        isFull = false;
      };
    },
    async restart() {
      if (!keepsData) generation++;
    },
    async loseData() {
      generation++;
    },
  };
  return { create, async close() {}, faults };
}
