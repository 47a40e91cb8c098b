import { vi } from 'vitest';

/** The tests of `http.test.ts`, with every connection at another node. */

vi.mock('@parlance/server', async (load) => {
  const { ofNodes } = await import('./server-of-nodes.js');
  return ofNodes(await load());
});

await import('./http.test.js');
