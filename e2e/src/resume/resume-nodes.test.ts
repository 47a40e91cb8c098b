import { createServer } from '@parlance/server';
import { expect, it, vi } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { leaveOutOneConnection } from '../kit/one-connection.js';
import { createPeers } from '../kit/peers.js';

/** The tests of `resume.test.ts`, with every connection at another node. */

vi.mock('@parlance/server', async (load) => {
  const { ofNodes } = await import('../kit/server-of-nodes.js');
  return ofNodes(await load());
});

leaveOutOneConnection('resume/resume-nodes');
await import('./resume.test.js');

it('reaches another node with each connection', async () => {
  await using peers = createPeers();
  let led = 0;
  const count = ({ event }: { readonly event?: unknown }) => {
    if (event === 'session.led') led++;
  };
  const log = (fields: object) => count(fields);
  const server = peers.use(createServer({ logger: { debug: log, info: log, warn: log, error: log } }));
  const proxy = peers.use(await createCuttingProxy((await server.listen()).port));
  const url = `ws://127.0.0.1:${proxy.port}/session`;
  const session = await peers.dial(url, { reconnect: { minDelayMs: 1, maxDelayMs: 5 } });
  for (let cuts = 1; cuts <= 2; cuts++) {
    proxy.cut();
    await expect.poll(() => led).toBe(cuts);
    await expect.poll(() => session.state).toBe('established');
  }
});
