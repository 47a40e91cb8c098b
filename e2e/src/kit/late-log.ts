import { setTimeout } from 'node:timers/promises';
import type { ReplyLog } from '../../../packages/server/src/replies/log.js';

/** A log that answers when the event loop has turned a few times. Calls that change a reply keep their order. */
export function createLateLog(log: ReplyLog): ReplyLog {
  const order = new Map<string, Promise<unknown>>();
  const later = async <Result>(task: () => Result): Promise<Awaited<Result>> => {
    for (let turns = Math.floor(Math.random() * 4); turns > 0; turns--) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    return await task();
  };
  const inOrder = <Result>(id: string, task: () => Result): Promise<Awaited<Result>> => {
    const run = () => later(task);
    const done = (order.get(id) ?? Promise.resolve()).then(run, run);
    order.set(id, done);
    const forget = () => {
      if (order.get(id) === done) order.delete(id);
    };
    done.then(forget, forget);
    return done;
  };
  return {
    open: (head) => inOrder(head.id, () => log.open(head)),
    append: (id, record) => inOrder(id, () => log.append(id, record)),
    end: (id, end) => inOrder(id, () => log.end(id, end)),
    // Late enough that a reply that does not wait for it is listed beside its successor.
    drop: (id) => inOrder(id, () => setTimeout(20).then(() => log.drop(id))),
    release: (id, isRead) => void inOrder(id, () => log.release?.(id, isRead)),
    read: (id, after) => later(() => log.read(id, after)),
    find: (target) => later(() => log.find(target)),
    watch: (id, onChange) => log.watch(id, onChange),
    async *list(owner) {
      for await (const entry of log.list(owner)) yield await later(() => entry);
    },
    sweep: (now) => log.sweep(now),
    get usage() {
      return log.usage;
    },
  };
}
