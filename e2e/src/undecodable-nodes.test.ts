import { vi } from 'vitest';
import { leaveOutOneConnection } from './kit/one-connection.js';

/** The tests of `undecodable.test.ts`, with every connection at another node. */

vi.mock('@parlance/server', async (load) => {
  const { ofNodes } = await import('./server-of-nodes.js');
  return ofNodes(await load());
});

leaveOutOneConnection('undecodable-nodes');
await import('./undecodable.test.js');
