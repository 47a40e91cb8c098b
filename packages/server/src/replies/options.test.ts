import { describe, expect, it } from 'vitest';
import type { Backplane } from '../backplane/backplane.js';
import { memoryCluster } from '../backplane/memory.js';
import { resolveRepliesOptions } from './options.js';

describe('replies.store', () => {
  it('is the memory of the node, unless the engine of a cluster is chosen', () => {
    expect(resolveRepliesOptions().isOnEngine).toBe(false);
    expect(resolveRepliesOptions({}, memoryCluster()).isOnEngine).toBe(false);
    expect(resolveRepliesOptions({ store: 'memory' }).isOnEngine).toBe(false);
    expect(resolveRepliesOptions({ store: 'engine' }, memoryCluster()).isOnEngine).toBe(true);
  });

  const unable: Backplane = { connect: () => memoryCluster().connect() };
  it.each<[string, unknown, Backplane | undefined]>([
    ['something else', 'redis', memoryCluster()],
    ['an engine without a cluster', 'engine', undefined],
    ['an engine that keeps no replies', 'engine', unable],
  ])('is not %s', (_what, store, cluster) => {
    expect(() => resolveRepliesOptions({ store } as never, cluster)).toThrow(
      expect.objectContaining({
        code: 'invalid_option',
        message: expect.stringContaining('replies.store'),
      }),
    );
  });
});
