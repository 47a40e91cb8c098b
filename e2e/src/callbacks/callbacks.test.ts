import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { BEHAVIOURS } from './behaviours.js';
import { applicationCallbacks } from './functions.js';
import { OURS, PLACES, type SetUp } from './places.js';

/**
 * No function of the application can end the process or any other session. The functions are found
 * by type, so that a new one without a place here fails.
 */

const open: AsyncDisposable[] = [];
const use = <T extends AsyncDisposable>(resource: T): T => {
  open.push(resource);
  return resource;
};
const faults: string[] = [];
const EVENTS = ['uncaughtException', 'unhandledRejection'] as const;
const handlers = EVENTS.map((event) => [event, process.rawListeners(event)] as const);
const { error, warn } = console;

beforeAll(() => {
  for (const event of EVENTS) {
    process.removeAllListeners(event);
    process.on(event, (fault: unknown) => void faults.push(`${event}: ${described(fault)}`));
  }
  console.error = () => {};
  console.warn = () => {};
});

afterAll(() => {
  for (const [event, before] of handlers) {
    process.removeAllListeners(event);
    for (const handler of before) process.on(event, handler as () => void);
  }
  Object.assign(console, { error, warn });
});

/** It may be a value that throws whatever is done with it. */
function described(fault: unknown): string {
  try {
    return fault instanceof Error ? String(fault.stack) : String(fault);
  } catch {
    return 'a value that throws';
  }
}

afterEach(async () => {
  await Promise.race([Promise.all(open.splice(0).map((each) => each[Symbol.asyncDispose]())), pause(2_000)]);
});

it('each function that the types let an application hand in has a place here', () => {
  const ours = Object.values(OURS);
  const found = applicationCallbacks().filter((name) => !ours.some((names) => names.test(name)));
  expect(found).toEqual(Object.keys(PLACES).sort());
});

const places = Object.entries(PLACES).filter(
  (each): each is [string, SetUp] => typeof each[1] === 'function',
);

describe.each(places)('%s', (_name, setUp) => {
  it('may do anything', async () => {
    let behave: () => unknown = () => undefined;
    let calls = 0;
    const callback = () => {
      calls++;
      return behave();
    };
    const place = await setUp(callback, use);
    const broken: string[] = [];
    for (const [what, behaviour] of Object.entries(BEHAVIOURS)) {
      behave = behaviour;
      calls = 0;
      faults.length = 0;
      const provoked = Promise.resolve(place.provoke()).then(() => 'done', described);
      const outcome = await Promise.race([provoked, pause(3_000, 'silent')]);
      for (let left = 300; calls === 0 && left > 0; left--) await pause(20);
      await pause(10);
      const said = await Promise.race([
        place.neighbour().then(() => undefined, String),
        pause(5_000, 'silent'),
      ]);
      if (calls === 0) broken.push(`${what}: was not called (${outcome})`);
      if (said !== undefined) broken.push(`${what}: the neighbour ${said}`);
      broken.push(...faults.map((fault) => `${what}: ${fault}`));
    }
    behave = () => undefined;
    expect(broken).toEqual([]);
  });
});
