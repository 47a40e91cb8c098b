import { beforeEach, vi } from 'vitest';

/** The tests of `requests.test.ts`, with every request at another node. */

vi.mock('@parlance/server', async (load) => {
  const { ofNodes } = await import('../kit/server-of-nodes.js');
  return ofNodes(await load());
});

/**
 * They say what one node does with two requests that it gets itself, or what it answers last on a connection, of which the balancer in front of
 * several ones may drop the end.
 */
const OF_ONE_NODE = [
  'has a key that names its node and that no other has',
  'counts as an upgrade does, in the limits of an address',
  'is refused by its length before it is read',
  'ends its streams when it closes',
];

beforeEach(({ task, skip }) => skip(OF_ONE_NODE.includes(task.name), 'this is the case of one node'));
await import('./requests.test.js');
