import { contractClient, defineContract } from '@parlance/client/contract';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';

/** Calls that nobody waits for fail without an unhandled rejection, which would end the process. */

let test: TestServer | undefined;
const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(async () => {
  await test?.close();
  process.off('unhandledRejection', note);
});

describe('calls that nobody waits for', () => {
  it('fail for a session of the server whose client has left', async () => {
    test = await createTestServer({ onSession() {} });
    const session = await test.connect();
    const [served] = [...test.server.sessions.values()];
    if (served === undefined) throw new Error('there is no session');
    await session.close();
    const aborted = AbortSignal.abort(new Error('no'));
    void served.send('x');
    void served.send('x', { signal: aborted });
    void served.send('x', { retryUnsent: true });
    void served.send(new Map() as never);
    void served.request('x');
    void served.request('x', { timeoutMs: -1 });
    void served.sendTensor({
      payloadType: 'hidden_state',
      dtype: 'float32',
      shape: [1],
      data: new Uint8Array(4),
    });
    void served.flush();
    void served.agents();
    void served.close({ code: 'Not a code' });
    void served.fetch('/');
    void served.fetch('not://');
    void test.server.group('all').send('\ud83d');
    void test.server.group('all').members({ limit: 0 });
    await test.clock.advance(1_000);
    expect(unhandled).toEqual([]);
    await expect(served.send('x')).rejects.toMatchObject({ code: 'session_closed' });
    await expect(served.request('x')).rejects.toMatchObject({ code: 'session_closed' });
  });

  it('fail for a session of a client that has ended, and for one that ends meanwhile', async () => {
    test = await createTestServer({ onRequest: () => new Promise(() => {}) });
    const session = await test.connect();
    const contract = defineContract({
      ask: { input: z.string() },
      both: { parts: z.number(), output: z.number() },
    });
    const typed = contractClient(contract, session);
    const calls = () => {
      const signal = AbortSignal.timeout(5);
      void session.send('x', { signal });
      void session.send('x', { retryUnsent: true });
      void session.request('x');
      void session.request('x', { retryUnsent: true });
      void session.request('x', { timeoutMs: 1 });
      void session.flush();
      void session.agents();
      void session.replies();
      void session.fetch('/');
      void session.fetch('/', { method: 'POST', body: new Uint8Array(3), signal });
      void session.detach();
      void session.close({ code: '!' });
      void typed.call.ask('x');
      void typed.call.both();
    };
    calls();
    await test.clock.advance(100);
    const followed = (() => {
      try {
        return session.follow('reply_1');
      } catch {
        return undefined;
      }
    })();
    void followed?.stop();
    await session.close();
    calls();
    await test.clock.advance(1_000);
    expect(unhandled).toEqual([]);
  });
});
