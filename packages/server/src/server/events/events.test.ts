import { events as clientEvents, defineContract } from '@parlance/client/contract';
import type { ServerSession } from '@parlance/server';
import { afterEach, expect, it } from 'vitest';
import { createTestServer, type TestServer } from '../../kit/kit.js';
import { events } from './feature.js';

/** Events over connections that a test controls. */

const contract = defineContract({}, { events: { ping: {}, never: {} } });
let test: TestServer | undefined;
afterEach(() => test?.close());

it('an event is handled once, and acknowledged, although the connection breaks under it', async () => {
  const calls: string[] = [];
  const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  const handlers = {
    never: () => void calls.push('saved'),
    async ping() {
      await wait(10_000);
      calls.push('slow');
    },
  };
  test = await createTestServer({ features: [events(contract, handlers)] });
  const near = await test.connect({ modules: [clientEvents(contract, handlers)] });
  const far = test.server.sessions.get(near.id) as ServerSession;
  for (const session of [near, far]) {
    const done: string[] = [];
    const slow = session.emit('ping').then(() => void done.push('slow'));
    await test.clock.advance(1_000);
    test.network.down();
    const saved = session.emit('never').then(() => void done.push('saved'));
    await test.clock.advance(20_000);
    // It was handled meanwhile, which its end cannot know yet.
    expect([calls.splice(0), done]).toEqual([['slow'], []]);
    test.network.up();
    await test.clock.advance(15_000);
    await Promise.all([slow, saved]);
    expect([calls.splice(0), done.toSorted()]).toEqual([['saved'], ['saved', 'slow']]);
  }
});

it('an event ends with its time, and its handler is told', async () => {
  let reason: unknown;
  const handlers = {
    ping: (_: undefined, { signal }: { readonly signal: AbortSignal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => {
          reason = signal.reason;
          reject(reason);
        }),
      ),
  };
  test = await createTestServer({ features: [events(contract, handlers)] });
  const near = await test.connect({ modules: [clientEvents(contract)] });
  const emitted = near.emit('ping', undefined, { timeoutMs: 5_000 }).catch((error) => error);
  await test.clock.advance(4_999);
  expect(reason).toBeUndefined();
  await test.clock.advance(10);
  expect(await emitted).toMatchObject({ code: 'timeout' });
  expect(reason).toMatchObject({ code: 'cancelled' });
});
