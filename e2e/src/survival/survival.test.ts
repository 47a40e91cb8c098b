import { setTimeout as pause } from 'node:timers/promises';
import { isProtocolError } from '@parlance/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HAPPEN } from './events.js';
import { PARTS } from './gate.js';
import { cellOf, type EngineName, EVENTS, type Event, type Feature, hasEvent, MATRIX } from './matrix.js';
import { PROBES, type Probe } from './probes.js';
import { MISSING, openStores, type Stores } from './stores.js';
import { type Columns, columnsOfRun, nodesFor } from './turns.js';
import { type Crowd, World } from './world.js';

/** Cells of the matrix, with real processes: all features at once for each event. */

/** Against hanging only. */
const PATIENCE_MS = 30_000;
const FEATURES = Object.keys(MATRIX) as Feature[];

/** @throws an error that says what has not happened. */
async function within<Result>(what: string, promise: Promise<Result>): Promise<Result> {
  const late = pause(PATIENCE_MS, undefined, { ref: false }).then(() => {
    throw new Error(`hangs: ${what}`);
  });
  return await Promise.race([promise, late]);
}

/** `continues`, the code of the error, or what is wrong. */
async function outcomeOf(end: () => Promise<void>): Promise<string> {
  try {
    await within('its end', end());
    return 'continues';
  } catch (error) {
    return isProtocolError(error) ? error.code : String(error);
  }
}

type Outcomes = ReadonlyMap<Feature, string>;

/** All features of a crowd, and what happens to it. */
class Case {
  readonly #event: Event;
  readonly #crowd: Crowd;
  #probes: readonly Probe[] = [];

  constructor(event: Event, crowd: Crowd) {
    this.#event = event;
    this.#crowd = crowd;
  }

  async begin(): Promise<void> {
    const event = this.#event.replaceAll(' ', '-');
    this.#probes = await Promise.all(
      FEATURES.map((feature, i) =>
        within(`${feature} begins`, PROBES[feature](this.#crowd, `${feature.split(' ')[0]}-${event}-${i}`)),
      ),
    );
  }

  /** @param open lets replies of all cases have more parts. */
  async happen(open: (parts: number) => Promise<void>): Promise<void> {
    const step = async () => {
      await open(PARTS.meanwhile);
      await Promise.all(
        this.#probes.map(({ step }, i) => step && within(`${FEATURES[i]} continues`, step())),
      );
    };
    await within(this.#event, HAPPEN[this.#event](this.#crowd, step));
  }

  async end(): Promise<Outcomes> {
    const ends = await Promise.all(this.#probes.map(({ end }) => outcomeOf(end)));
    return new Map(FEATURES.map((feature, i) => [feature, ends[i] as string]));
  }
}

/** The outcome for each feature if these events happen beside each other, each to a crowd of its own. */
async function outcomes(
  stores: Stores,
  engine: EngineName,
  events: Columns,
): Promise<ReadonlyMap<Event, Outcomes>> {
  await using store = await stores.start();
  await using world = await World.start(store, nodesFor(engine, events));
  const cases = events.map((event) => new Case(event, world.gather()));
  for (const each of cases) await each.begin();
  await Promise.all(cases.map((each) => each.happen((parts) => world.open(parts))));
  await world.open(PARTS.all);
  const ends = await Promise.all(cases.map((each) => each.end()));
  return new Map(events.map((event, i) => [event, ends[i] as Outcomes]));
}

describe.each(columnsOfRun())('$engine', ({ engine, columns }) => {
  let stores: Stores | undefined;
  beforeAll(async () => {
    if (MISSING[engine] === undefined) stores = await openStores(engine);
  });
  afterAll(async () => await stores?.[Symbol.asyncDispose]());

  describe.skipIf(MISSING[engine] !== undefined).each(columns.map((events) => ({ events })))(
    '$events',
    ({ events }) => {
      let seen: ReadonlyMap<Event, Outcomes>;
      beforeAll(async () => {
        seen = await outcomes(stores as Stores, engine, events);
      }, 3 * PATIENCE_MS);

      describe.each(events.map((event) => ({ event, what: EVENTS[event] })))('$event: $what', ({ event }) => {
        it.each(FEATURES)('%s', (feature) => {
          expect(hasEvent(engine, event)).toBe(true);
          const cell = cellOf(engine, feature, event);
          expect(seen.get(event)?.get(feature)).toBe('goesOn' in cell ? 'continues' : cell.error);
        });
      });
    },
  );
});
