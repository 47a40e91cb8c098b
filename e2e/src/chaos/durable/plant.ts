import { setTimeout as sleep } from 'node:timers/promises';
import type { Engine } from '@parlance/server';
import type { EngineConnection, SessionWrite } from '@parlance/server/engine';

/** Rules of durable sessions that are broken on purpose, because a ledger that has found nothing may be blind. */

export const DURABLE_PLANTS = {
  epoch: 'the engine takes the writes of every node',
  accept: 'an ACCEPT does not wait for its record',
  handled: 'a message is handled before its effects',
  start: 'the start of a handler is not recorded',
  early: 'parts are told before they are recorded',
} as const;
export type DurablePlant = keyof typeof DURABLE_PLANTS;

/** How long after its answer a write happens that is answered too early. */
const LATE_MS = 60;

/** An engine that breaks the rule, if that is up to the engine. */
export function withFault(engine: Engine, plant: DurablePlant | undefined): Engine {
  const change = plant === undefined ? undefined : CHANGES[plant];
  if (change === undefined) return engine;
  const connect = () => {
    const link = engine.connect();
    return replaced(link, { writeSession: change(link) });
  };
  return replaced(engine, { connect });
}

type Write = EngineConnection['writeSession'];

const CHANGES: Readonly<Partial<Record<DurablePlant, (link: EngineConnection) => Write>>> = {
  epoch: (link) => async (id, write) => {
    const answer = await link.writeSession(id, write);
    const owner = answer === 'fenced' ? await link.findSession(id) : undefined;
    return owner === undefined ? answer : await link.writeSession(id, { ...write, ...owner });
  },
  start: (link) => (id, write) => link.writeSession(id, withoutStarts(write)),
  accept: answeredEarly(({ set, isFirst }) => !isFirst && set.has('accept')),
  early: answeredEarly(({ set }) => [...set.keys()].some((name) => PART.test(name))),
};

const PART = /^p\d/;

function withoutStarts(write: SessionWrite): SessionWrite {
  const fields = [...write.set].filter(
    ([name]) =>
      !/^s\d/.test(name) || write.set.has(`p${name.slice(1)}.0`) || write.set.has(`x${name.slice(1)}`),
  );
  return { ...write, set: new Map(fields) };
}

/** Says that some writes have happened when they have not. Those that follow wait for them. */
function answeredEarly(isEarly: (write: SessionWrite) => boolean) {
  return (link: EngineConnection): Write => {
    const late = new Map<string, Promise<unknown>>();
    return async (id, write) => {
      const before = late.get(id);
      if (!isEarly(write)) {
        await before;
        return await link.writeSession(id, write);
      }
      const done = Promise.all([before, sleep(LATE_MS)])
        .then(() => link.writeSession(id, write))
        .catch(() => {});
      late.set(id, done);
      return 'written';
    };
  };
}

/** An object whose other members, private ones too, are those of `target`. */
export function replaced<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get(_target, name) {
      if (Object.hasOwn(members, name)) return Reflect.get(members, name);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
