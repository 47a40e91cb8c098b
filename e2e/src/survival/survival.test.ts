import { setTimeout as pause } from 'node:timers/promises';
import { isProtocolError } from '@parlance/protocol';
import { beforeAll, describe, expect, it } from 'vitest';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';
import { HAPPEN } from './events.js';
import { PARTS } from './gate.js';
import { EVENTS, type Event, type Feature, MATRIX } from './matrix.js';
import { PROBES } from './probes.js';
import { World } from './world.js';

/** Every cell of the matrix, with real processes: all features at once for each event. */

/** Against hanging only. */
const PATIENCE_MS = 30_000;
const NODES: Partial<Record<Event, number>> = { 'drain alone': 1, 'kill alone': 0 };
const FEATURES = Object.keys(MATRIX) as Feature[];

/** @throws an error that says what has not happened. */
async function within<Result>(what: string, promise: Promise<Result>): Promise<Result> {
  const late = pause(PATIENCE_MS, undefined, { ref: false }).then(() => {
    throw new Error(`hangs: ${what}`);
  });
  return await Promise.race([promise, late]);
}

/** `goes on`, the code of the error, or what is wrong. */
async function outcomeOf(end: () => Promise<void>): Promise<string> {
  try {
    await within('its end', end());
    return 'goes on';
  } catch (error) {
    return isProtocolError(error) ? error.code : String(error);
  }
}

async function outcomes(event: Event): Promise<ReadonlyMap<Feature, string>> {
  await using world = await World.start(NODES[event] ?? 2);
  const probes = await Promise.all(
    FEATURES.map((feature, i) =>
      within(`${feature} begins`, PROBES[feature](world, `${feature.split(' ')[0]}-${i}`)),
    ),
  );
  const step = async () => {
    await world.open(PARTS.meanwhile);
    await Promise.all(probes.map(({ step }, i) => step && within(`${FEATURES[i]} goes on`, step())));
  };
  await within(event, HAPPEN[event](world, step));
  await world.open(PARTS.all);
  const ends = await Promise.all(probes.map(({ end }) => outcomeOf(end)));
  return new Map(FEATURES.map((feature, i) => [feature, ends[i] as string]));
}

describe.skipIf(redisMissing !== undefined).each(Object.entries(EVENTS) as [Event, string][])(
  '%s: %s',
  (event) => {
    let seen: ReadonlyMap<Feature, string>;
    beforeAll(async () => {
      seen = await outcomes(event);
    }, 3 * PATIENCE_MS);

    it.each(FEATURES)('%s', (feature) => {
      const cell = MATRIX[feature][event];
      expect(seen.get(feature)).toBe('goesOn' in cell ? 'goes on' : cell.error);
    });
  },
);
