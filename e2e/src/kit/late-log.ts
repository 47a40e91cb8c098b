import { setTimeout } from 'node:timers/promises';
import type { ReplyLogs } from '../../../packages/server/src/engine/logs/logs.js';

/** Calls that are not answered, or must not be late. */
const AT_ONCE: ReadonlySet<string> = new Set(['watch', 'listen', 'close']);

/** Logs that answer when the event loop has turned a few times. */
export function createLateLogs(logs: ReplyLogs): ReplyLogs {
  const late = async (name: string, call: () => unknown): Promise<unknown> => {
    for (let turns = Math.floor(Math.random() * 4); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve));
    // Late enough that a reply that does not wait for it is listed beside its successor.
    if (name === 'drop') await setTimeout(20);
    return await call();
  };
  return new Proxy(logs, {
    get(_, name: keyof ReplyLogs) {
      const method = logs[name] as ((...args: never[]) => unknown) | undefined;
      if (typeof method !== 'function' || AT_ONCE.has(name)) return method;
      return (...args: never[]) => late(name, () => method(...args));
    },
  });
}
