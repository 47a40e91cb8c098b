import { vi } from 'vitest';
import { ofNodes } from '../kit/server-of-nodes.js';

/** The tests of kept replies once more, on a node that keeps them in the engine of its cluster. */

vi.mock('@parlance/server', async (load) => ofNodes(await load(), 1));

await import('./replies.test.js');
