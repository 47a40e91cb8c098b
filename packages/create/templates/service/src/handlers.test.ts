import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contractClient } from '@parlance/client/contract';
import { createTestServer } from '@parlance/server/testing';
import { contract } from './contract.js';
import { onRequest } from './handlers.js';

test('lines arrive once and in order, although the connection is cut', async () => {
  const { connect, network, close } = await createTestServer({ onRequest, time: 'real' });
  try {
    const { call, stream } = contractClient(contract, await connect());
    assert.deepEqual(await call.count('one two  three'), { words: 3 });
    const lines: string[] = [];
    for await (const line of stream.repeat({ text: 'hello', times: 4 })) {
      lines.push(line);
      if (lines.length === 2) network.cut();
    }
    assert.deepEqual(lines, ['1: hello', '2: hello', '3: hello', '4: hello']);
  } finally {
    await close();
  }
});
