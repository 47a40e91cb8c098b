import { getEventListeners } from 'node:events';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, expect, it, vi } from 'vitest';

let test: TestServer | undefined;
afterEach(async () => {
  vi.unstubAllGlobals();
  await test?.close();
});

/** As jsdom, which takes no signals but those of its own `AbortController`. Many set-ups of tests give it the one of Node. */
class Target extends EventTarget {
  readonly visibilityState = 'visible';

  override addEventListener(...[type, listener, options]: Parameters<EventTarget['addEventListener']>): void {
    if (typeof options === 'object' && 'signal' in options)
      throw new TypeError("member 'signal' that is not of type 'AbortSignal'.");
    super.addEventListener(type, listener, options);
  }
}

it('a session watches its page until it ends, also if the page is of another realm', async () => {
  const [window, document] = [new Target(), new Target()];
  vi.stubGlobal('window', window);
  vi.stubGlobal('document', document);
  test = await createTestServer({ onRequest: () => 'here' });
  const listening = () => [
    ...['online', 'offline', 'pagehide', 'pageshow'].map((type) => getEventListeners(window, type).length),
    getEventListeners(document, 'visibilitychange').length,
  ];
  const session = await test.connect();
  expect((await session.request('there?')).text).toBe('here');
  expect(listening()).toEqual([1, 1, 1, 1, 1]);
  await session.close();
  expect(listening()).toEqual([0, 0, 0, 0, 0]);
});
