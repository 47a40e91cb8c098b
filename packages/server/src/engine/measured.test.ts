import { ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import type { Engine } from './engine.js';
import { type CallObserver, measured } from './measured.js';
import { memoryCluster } from './memory.js';

function observing(engine: Engine) {
  const calls: string[] = [];
  const observer: CallObserver = {
    handleEngineCall(call, outcome, seconds) {
      expect(seconds).toBeGreaterThanOrEqual(0);
      calls.push(`${call} ${outcome}`);
    },
  };
  return { calls, engine: measured(engine, () => observer) };
}

describe('a measured engine', () => {
  it('tells each call of its connection, its tables and its logs', async () => {
    const { calls, engine } = observing(memoryCluster());
    const connection = engine.connect();
    await connection.renew('a', 'record', 1_000);
    expect(await connection.find('a')).toMatchObject({ record: 'record' });
    const table = connection.table('names');
    await table.put('key', { holder: 'a', record: '' }, null);
    const logs = engine.connectLogs?.();
    await logs?.find('none');
    logs?.watch('none', () => {})();
    await connection.close();
    expect(calls).toEqual(['renew answered', 'find answered', 'put answered', 'find answered']);
  });

  it('says why a call has failed, and fails with the same error', async () => {
    const error = new ProtocolError('timeout', 'too late');
    const failing = { ...memoryCluster().connect(), find: () => Promise.reject(error) };
    const { calls, engine } = observing({ connect: () => failing });
    await expect(engine.connect().find('a')).rejects.toBe(error);
    expect(calls).toEqual(['find timeout']);
    expect(engine.connectLogs).toBeUndefined();
  });

  it('takes a connection that is frozen, and calls it directly while nobody observes', async () => {
    const frozen: Engine = { connect: () => Object.freeze({ ...memoryCluster().connect() }) };
    const { calls, engine } = observing(frozen);
    expect((await engine.connect().renew('a', 'record', 1_000)).nodes?.length).toBe(1);
    expect(calls).toEqual(['renew answered']);
    const answer = Promise.resolve(undefined);
    const connection = { ...memoryCluster().connect(), find: () => answer };
    const unobserved = measured({ connect: () => connection }, () => undefined);
    expect(unobserved.connect().find('a')).toBe(answer);
  });

  it('has the secret of the engine', () => {
    const engine = memoryCluster();
    expect(observing(engine).engine.secret).toBe(engine.secret);
  });
});
