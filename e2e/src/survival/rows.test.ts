import { durable, memoryCluster, nodes } from '@parlance/server';
import { expect, it } from 'vitest';
import { defaultFeatures } from '../../../packages/server/src/create-server.js';
import { ROWS_OF } from './matrix.js';

/** A feature of the server cannot be forgotten in the matrix. */
it('has rows for each feature of a server, or says why there are none', () => {
  const engine = memoryCluster();
  const features = [...defaultFeatures({ authenticate: () => null, engine }), nodes(), durable()];
  expect(features.map(({ name }) => name).sort()).toEqual(Object.keys(ROWS_OF).sort());
});
