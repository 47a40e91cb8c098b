import { vi } from 'vitest';
import { leaveOutOneConnection } from '../kit/one-connection.js';

/** The tests of `reload.test.ts`, with every connection at another node. */

vi.mock('@parlance/server', async (load) => {
  const { ofNodes } = await import('../kit/server-of-nodes.js');
  return ofNodes(await load());
});

leaveOutOneConnection('resume/reload-nodes');
await import('./reload.test.js');
