import { durable, memoryCluster } from '@parlance/server';
import { createTestServer, type TestServer, type TestServerOptions } from '@parlance/server/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';

/** The clock of the machine is set while a server runs, or the machine sleeps. Time is virtual. */

let test: TestServer;
afterEach(async () => {
  vi.restoreAllMocks();
  await test.close();
});

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** Sets the clock of the machine; the monotonic one continues. */
function step(ms: number): void {
  const { now } = Date;
  vi.spyOn(Date, 'now').mockImplementation(() => now() + ms);
}

async function serve(options: TestServerOptions) {
  test = await createTestServer(options);
  return test;
}

const STEPS = [
  ['ahead', HOUR_MS],
  ['back', -HOUR_MS],
] as const;

describe.each(STEPS)('a clock that is set %s', (how, ms) => {
  const expiring: TestServerOptions = {
    authenticate: () => ({ principal: 'ann', expiresAt: Date.now() + 20_000 }),
  };

  it('before a client comes: its credentials last as long as they are meant to, and are renewed a few times', async () => {
    await serve(expiring);
    step(ms);
    let asked = 0;
    const fixed = await test.connect({ token: 'x' });
    const renewing = await test.connect({ token: () => `${asked++}` });
    await test.clock.advance(19_000);
    expect([fixed.state, renewing.state]).toEqual(['established', 'established']);
    await test.clock.advance(2_000);
    expect([fixed.state, renewing.state]).toEqual(['closed', 'established']);
    await test.clock.advance(39_000);
    // Each time when three quarters of 20 s have passed.
    expect([renewing.state, asked]).toEqual(['established', 5]);
  });

  it('while a client is there: its credentials are not accepted for longer, and it asks for others a few times', async () => {
    await serve(expiring);
    let asked = 0;
    const fixed = await test.connect({ token: 'x' });
    const renewing = await test.connect({ token: () => `${asked++}` });
    await test.clock.advance(5_000);
    step(ms);
    await test.clock.advance(2_000);
    // By the clock in which they were stated they are over.
    if (how === 'ahead') expect(fixed.state).toBe('closed');
    await test.clock.advance(14_000);
    expect([fixed.state, renewing.state]).toEqual(['closed', 'established']);
    await test.clock.advance(39_000);
    expect(renewing.state).toBe('established');
    expect(asked).toBeLessThanOrEqual(7);
  });

  it('does not touch a kept reply that nobody reads', async () => {
    let stopped = 0;
    await serve({
      async *onRequest(_request, { keep, signal }) {
        keep({ name: 'report' });
        signal.addEventListener('abort', () => stopped++);
        yield 'one ';
        await new Promise((resolve) => setTimeout(resolve, MINUTE_MS));
        yield 'two';
      },
      authenticate: () => ({ principal: 'ann' }),
    });
    const first = await test.connect({ token: 'ann' });
    const stream = first.stream('x')[Symbol.asyncIterator]();
    await stream.next();
    await first.close();
    step(ms);
    await test.clock.advance(2 * MINUTE_MS);
    const second = await test.connect({ token: 'ann' });
    let text = '';
    for await (const part of second.follow('report')) text += part.text;
    expect([text, stopped]).toEqual(['one two', 0]);
    // It is forgotten after its time, which is ten minutes since the end.
    await test.clock.advance(11 * MINUTE_MS);
    const third = await test.connect({ token: 'ann' });
    const late = third.follow('report')[Symbol.asyncIterator]().next();
    await expect(late).rejects.toMatchObject({ code: 'unknown_reply' });
  });

  it('does not touch a session that waits for its client, nor a drain', async () => {
    await serve({ engine: memoryCluster(), features: [durable(true, { allowVolatileEngine: true })] });
    const session = await test.connect({ reconnect: { maxDelayMs: 1_000 } });
    const { id } = session;
    test.network.down();
    await test.clock.advance(10);
    step(ms);
    expect(session.suspendedUntil).toBeGreaterThan(Date.now() + MINUTE_MS);
    expect(session.suspendedUntil).toBeLessThan(Date.now() + 3 * MINUTE_MS);
    await test.clock.advance(30_000);
    expect([...test.server.sessions.keys()]).toEqual([id]);
    test.network.up();
    await test.clock.advance(2_000);
    expect([session.state, session.id]).toEqual(['established', id]);
  });

  it('gives a client that is away the same five seconds in a drain', async () => {
    await serve({});
    await test.connect({ reconnect: { minDelayMs: 1_000_000, maxDelayMs: 1_000_000 } });
    test.network.down();
    await test.clock.advance(10);
    step(ms);
    let isOver = false;
    const drained = test.server.drain({ timeoutMs: MINUTE_MS }).then((result) => {
      isOver = true;
      return result;
    });
    await test.clock.advance(4_000);
    expect(isOver).toBe(false);
    await test.clock.advance(2_000);
    expect(isOver).toBe(true);
    expect(await drained).toMatchObject({ ended: 1 });
  });
});
