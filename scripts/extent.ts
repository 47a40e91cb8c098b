/**
 * How much is tested. CI and `npm test` leave out what seldom finds more: a case with one connection is not repeated on three
 * nodes, and a property is tested with at most {@link MAX_SHORT_RUNS} values. `PARLANCE_TESTS=full` and `npm run nightly`
 * leave nothing out, and use new seeds.
 */
export const isFull = process.env['PARLANCE_TESTS'] === 'full';

export const MAX_SHORT_RUNS = 300;
