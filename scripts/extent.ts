/**
 * How much is tested. CI and `npm test` leave out what seldom finds more: a case with one connection is not repeated on three
 * nodes, a property is tested with at most {@link MAX_SHORT_RUNS} values, histories and random texts are fewer, and pages are shown
 * without a window. `PARLANCE_TESTS=full` and `npm run nightly` leave nothing out, use new seeds, and take the whole Chromium.
 */
export const isFull = process.env['PARLANCE_TESTS'] === 'full';

export const MAX_SHORT_RUNS = 300;

/**
 * Which of several things that take turns is tested by a run that does not test them all: another one each day (UTC).
 * `PARLANCE_TURN` repeats the one of an earlier day.
 */
export const turn = Number(process.env['PARLANCE_TURN'] ?? Math.floor(Date.now() / 86_400_000));

export const inTurn = <const Thing>(things: readonly [Thing, ...Thing[]]): Thing =>
  things[turn % things.length] as Thing;
