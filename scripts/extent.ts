/**
 * How much is tested. CI and `npm test` leave out what seldom finds more: a case with one connection is not repeated on three
 * nodes, a property is tested with at most {@link MAX_SHORT_RUNS} values, and pages are shown without a window. `PARLANCE_TESTS=full`
 * and `npm run nightly` leave nothing out, use new seeds, and take the whole Chromium.
 */
export const isFull = process.env['PARLANCE_TESTS'] === 'full';

export const MAX_SHORT_RUNS = 300;
