import { vi } from 'vitest';

/** The tests of kept replies of several nodes once more, with replies in the engine of the cluster. */

vi.mock('./replies-store.js', () => ({ store: 'engine' }));

await import('./replies-nodes.test.js');
