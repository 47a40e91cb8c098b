import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestServer } from '@parlance/server/testing';
import { identify, tokenFor } from './identity.js';
import { factors } from './work.js';

const SECRET = 'a secret of the test';

test('a planner finds a worker, and its answer survives a cut', async () => {
  const authenticate = ({ token = '' }) => identify(token, SECRET);
  const { connect, network, close } = await createTestServer({ authenticate, time: 'real' });
  try {
    await connect({
      token: tokenFor('worker', SECRET),
      agent: { metadata: { skill: 'factors' } },
      onRequest: (request, { signal }) => factors(Number(request.text), signal),
    });
    const planner = await connect({ token: tokenFor('planner', SECRET) });
    const { list } = await planner.agents();
    assert.deepEqual(
      list.map(({ id, metadata }) => [id, metadata['skill']]),
      [['worker', 'factors']],
    );
    const found: string[] = [];
    for await (const part of planner.stream('60', { to: 'worker' })) {
      found.push(part.text);
      if (found.length === 1) network.cut();
    }
    assert.equal(found.join(''), '2 2 3 5 ');
  } finally {
    await close();
  }
});

test('a token that was made with another secret is refused', () => {
  assert.equal(identify(tokenFor('worker', 'another'), SECRET), null);
});
