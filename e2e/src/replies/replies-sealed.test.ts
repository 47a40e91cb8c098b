import type * as parlance from '@parlance/server';
import { vi } from 'vitest';
import { ofNodes } from '../kit/server-of-nodes.js';

/** The tests of kept replies once more, on a node that seals what the engine of its cluster keeps. */

vi.mock('@parlance/server', async (load) => {
  const actual = await load<typeof parlance>();
  const key = new Uint8Array(32).fill(7);
  return ofNodes(actual, 1, (engine) => actual.sealed(engine, { key }));
});

await import('./replies.test.js');
