import { once } from 'node:events';
import { afterEach, expect, it } from 'vitest';
import { startServing } from '../kit/cli-process.js';
import { createPeers } from '../kit/peers.js';

/** `parlance serve` ends after a drain that an operator has asked for, so that a supervisor starts it again. */

const TOKEN = 'the-token-of-an-operator';
const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

it('exits when its sessions have ended', async () => {
  const args = ['--no-ui', '--admin-port', '0', '--admin-operate'];
  const serving = await startServing(args, { PARLANCE_ADMIN_TOKEN: TOKEN });
  const exit = once(serving.child, 'close');
  const session = await peers.dial(serving.url, { reconnect: false });
  const dashboard = /"dashboard":"([^"]+)"/.exec(serving.log())?.[1];
  const answer = await fetch(new URL('admin/drain', dashboard), {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body: '{"timeoutMs":60000}',
  });
  expect(answer.status).toBe(202);
  await session.close();
  expect(await exit).toEqual([0, null]);
  expect(serving.log()).toContain('"server.closed"');
});
