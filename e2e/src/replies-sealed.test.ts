import { vi } from 'vitest';
import { ofNodes } from './server-of-nodes.js';

/** The tests of kept replies once more, on a node that seals what the engine of its cluster keeps. */

const options = { seal: { key: new Uint8Array(32).fill(7) } } as const;

vi.mock('@parlance/server', async (load) => ofNodes(await load(), options, 1));

await import('./replies.test.js');
