import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, expect, it } from 'vitest';

/** Listeners that come and go while they are called, as those of components do. */

let test: TestServer | undefined;
afterEach(() => test?.close());

it('a listener that adds itself again is called once for each event', async () => {
  test = await createTestServer();
  const session = await test.connect();
  const states: string[] = [];
  const again = (state: string) => {
    if (states.push(state) > 10) return;
    stop();
    stop = session.on('state', again);
  };
  let stop = session.on('state', again);
  await session.close();
  expect(states).toEqual(['closing', 'closed']);
});

it('a listener that was removed meanwhile is not called, and one that was added waits for the next event', async () => {
  test = await createTestServer();
  const session = await test.connect();
  const called: string[] = [];
  const stopFirst = session.on('state', () => {
    called.push('first');
    stopFirst();
    stopSecond();
    session.on('state', (state) => called.push(`late: ${state}`));
  });
  const stopSecond = session.on('state', () => called.push('second'));
  session.on('state', () => called.push('third'));
  await session.close();
  expect(called).toEqual(['first', 'third', 'third', 'late: closed']);
});

it('two components that listen with the same function do not remove each other', async () => {
  test = await createTestServer();
  const session = await test.connect();
  const states: string[] = [];
  const log = (state: string) => states.push(state);
  const stop = session.on('state', log);
  session.on('state', log);
  stop();
  stop();
  await session.close();
  expect(states).toEqual(['closing', 'closed']);
});

it('what is not a function is refused at once', async () => {
  test = await createTestServer();
  const session = await test.connect();
  expect(() => session.on('state', undefined as never)).toThrow(
    expect.objectContaining({ code: 'invalid_argument' }),
  );
});
