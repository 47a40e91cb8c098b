import { createServer, type Feature } from '@parlance/server';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, expect, it } from 'vitest';

/** A second SIGTERM, or a time-out around `drain()`: `close()` comes while the server drains. */

let test: TestServer | undefined;
afterEach(() => test?.close());

it('a drain that close() cuts short says which sessions it has interrupted', async () => {
  test = await createTestServer({
    async *onRequest() {
      yield 'a part';
      await new Promise(() => {});
    },
  });
  const { server, clock, connect } = test;
  const session = await connect({ reconnect: false });
  const failed = (async () => {
    for await (const _part of session.stream('x'));
  })().catch((error: unknown) => error);
  await clock.advance(100);
  const drained = server.drain({ timeoutMs: 60_000 });
  await clock.advance(1_000);
  const closed = server.close();
  await clock.advance(10_000);
  await closed;
  expect(await drained).toEqual({ ended: 0, interrupted: 1, lost: 0 });
  expect(await failed).toMatchObject({ code: 'session_lost' });
});

it('close() ends although a feature of the drain hangs', async () => {
  const hanging: Feature = {
    name: 'hanging',
    install: () => ({ drain: { announce: () => new Promise(() => {}) } }),
  };
  const server = createServer({ features: [hanging], timers: { closingTimeoutMs: 50 } });
  await server.listen();
  void server.drain();
  await server.close();
});
