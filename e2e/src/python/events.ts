import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { type NodeProcess, startNode } from '../kit/programs.js';

/**
 * A server of durable sessions with events, for the tests of `python/`. It prints its URL; `kill` kills its process and starts another one,
 * and a number emits so many events to each client. A line says when that is done.
 */

const folder = mkdtempSync(join(tmpdir(), 'parlance-events-'));
const start = () => startNode('durable/events-node', { url: join(folder, 'parlance.db') });

let node: NodeProcess<'durable/events-node'> = await start();
const front = await createCuttingProxy(() => node.port);
console.log(`ws://127.0.0.1:${front.port}/session`);
for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'kill') {
    await node.process.kill();
    node = await start();
  } else await node.process.call('tell', Number(line));
  console.log('done');
}
await node.process.kill();
rmSync(folder, { recursive: true, force: true });
process.exit();
