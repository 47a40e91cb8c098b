import { vi } from 'vitest';
import { leaveOutOneConnection } from '../kit/one-connection.js';

/** The tests of `http.test.ts`, with every connection at another node. */

vi.mock('@parlance/server', async (load) => {
  const { ofNodes } = await import('../kit/server-of-nodes.js');
  return ofNodes(await load());
});

leaveOutOneConnection('http/http-nodes');
await import('./http.test.js');
