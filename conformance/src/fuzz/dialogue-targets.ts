import { converse } from './dialogue.js';
import { createFigures, type Figures } from './figures.js';
import { converseAtRelay } from './relay-dialogue.js';
import { expectOthersTalk } from './relay-target.js';
import type { Target } from './target.js';

/**
 * Whole sessions with all kinds of offers, limits and roles: every input stands for one, and a run counts its
 * traffic.
 */

/** Any input works; these begin in different ways. */
const SEEDS: readonly Uint8Array[] = Array.from({ length: 12 }, (_, i) => Uint8Array.of(i, 7 * i, 31 * i));

const ofSessions: Figures = createFigures();
const session: Target = {
  name: 'session',
  tokens: [],
  seeds: SEEDS,
  figures: ofSessions,
  run: (input) => converse(input, ofSessions),
  // The next run starts with two new ends.
  recheck() {},
};

const ofRelays: Figures = createFigures();
const relay: Target = {
  name: 'relay',
  tokens: [],
  seeds: SEEDS,
  figures: ofRelays,
  run(input) {
    const bench = converseAtRelay(input, ofRelays);
    expectOthersTalk(bench);
    return !bench.isOpen;
  },
  // Every run ends by checking the other agents.
  recheck() {},
};

export const DIALOGUE_TARGETS: readonly Target[] = [session, relay];
