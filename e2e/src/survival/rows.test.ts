import { cluster, durable, memoryCluster } from '@parlance/server';
import { events } from '@parlance/server/contract';
import { expect, it } from 'vitest';
import { defaultFeatures } from '../../../packages/server/src/create-server.js';
import { eventContract } from '../kit/event-contract.js';
import { ENGINES, type EngineName, ROWS_OF } from './matrix.js';
import { COLUMNS_OF_TURNS } from './turns.js';

/** A feature of the server cannot be forgotten in the matrix. */
it('has rows for each feature of a server, or says why there are none', () => {
  const engine = memoryCluster();
  const features = [
    ...defaultFeatures({ authenticate: () => null, engine }),
    cluster(),
    durable(),
    events(eventContract),
  ];
  expect(Object.keys(ROWS_OF)).toEqual(expect.arrayContaining(features.map(({ name }) => name)));
});

it.each(Object.keys(ENGINES) as EngineName[])('has each column of %s in some turn, once', (engine) => {
  const runs = COLUMNS_OF_TURNS.filter((run) => run.engine === engine);
  const columns = runs.flatMap((run) => run.columns.flat());
  expect(columns.toSorted()).toEqual([...ENGINES[engine].events].toSorted());
});
