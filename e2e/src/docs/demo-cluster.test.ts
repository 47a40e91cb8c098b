import { describe, expect, it } from 'vitest';
import { startNodes } from '../../../examples/demo/cluster/nodes.js';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'the demo of a cluster', () => {
  it('says what it is doing while it starts', async () => {
    const told: string[] = [];
    await using nodes = await startNodes(2, (line) => told.push(line.replace(/^ *\d+\.\d s {2}/, '')));
    expect(nodes.pids).toHaveLength(2);
    expect(told.slice(0, 2)).toEqual([
      'starting Redis',
      expect.stringMatching(/^Redis answers at redis:.*; starting 2 nodes, each a process of its own$/),
    ]);
    expect(told.slice(2).sort()).toEqual([
      'node 1 is a member',
      'node 1 listens, and joins the cluster',
      'node 2 is a member',
      'node 2 listens, and joins the cluster',
    ]);
  });
});
