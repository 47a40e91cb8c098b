import { createTestServer, type TestServer, type TestServerOptions } from '@parlance/server/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';

/** Signs that a connection may be gone without a word: its client asks it, and replaces it if nothing comes. Time is virtual. */

let test: TestServer;
const page = { visibilityState: 'visible' };
afterEach(async () => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  await test.close();
});

/** More than it takes to ask three times, and much less than silence takes to be noticed without a sign. */
const SOON_MS = 13_000;

function stubPage(visibilityState = 'visible') {
  page.visibilityState = visibilityState;
  const window = new EventTarget();
  const document = Object.assign(new EventTarget(), page);
  vi.stubGlobal('window', window);
  vi.stubGlobal('document', document);
  return { window, document };
}

async function setUp(options: TestServerOptions = {}) {
  test = await createTestServer({
    async *onRequest() {
      yield 'one ';
      await new Promise((resolve) => setTimeout(resolve, 300_000));
      yield 'two';
    },
    ...options,
  });
  const session = await test.connect();
  const states: string[] = [];
  session.on('state', (state) => states.push(state));
  return { session, states };
}

/** The machine sleeps for so long; its monotonic clock does not count that. */
function sleep(ms: number): void {
  const { now } = Date;
  vi.spyOn(Date, 'now').mockImplementation(() => now() + ms);
}

const SIGNS: readonly (readonly [string, (page: ReturnType<typeof stubPage>) => void])[] = [
  ['the page becomes visible', ({ document }) => document.dispatchEvent(new Event('visibilitychange'))],
  ['the browser is online', ({ window }) => window.dispatchEvent(new Event('online'))],
  ['the browser is offline', ({ window }) => window.dispatchEvent(new Event('offline'))],
  ['the page is shown', ({ window }) => window.dispatchEvent(new Event('pageshow'))],
  ['the machine has slept', () => sleep(60_000)],
];

describe.each(SIGNS)('when %s', (_sign, happen) => {
  it('a dead connection is replaced soon, and the answer continues', async () => {
    const stubbed = stubPage();
    const { session, states } = await setUp();
    let text = '';
    const reading = (async () => {
      for await (const part of session.stream('x')) text += part.text;
    })();
    await test.clock.advance(0);
    expect(text).toBe('one ');
    test.network.freeze();
    await test.clock.advance(4_000);
    expect(states).toEqual([]);
    happen(stubbed);
    await test.clock.advance(SOON_MS);
    expect(states).toEqual(['suspended']);
    test.network.thaw();
    await test.clock.advance(300_000);
    await reading;
    expect(text).toBe('one two');
  });

  it('an idle connection that is dead is replaced before anything is asked', async () => {
    const stubbed = stubPage();
    const { states } = await setUp();
    test.network.freeze();
    happen(stubbed);
    await test.clock.advance(SOON_MS);
    expect(states).toEqual(['suspended']);
  });

  it('a connection that lives is asked once, and kept', async () => {
    const stubbed = stubPage();
    const { session, states } = await setUp();
    const [served] = [...test.server.sessions.values()];
    expect(session.stats().roundTripMs).toBeUndefined();
    happen(stubbed);
    await test.clock.advance(SOON_MS);
    expect([states, served?.state, session.stats().roundTripMs]).toEqual([[], 'established', 0]);
  });
});

it('a process without a page asks as well when it stood still', async () => {
  const { states } = await setUp();
  test.network.freeze();
  sleep(60_000);
  await test.clock.advance(SOON_MS);
  expect(states).toEqual(['suspended']);
});

it('a connection is not replaced so soon without a sign, or for the slow timers of a hidden page', async () => {
  stubPage('hidden');
  const { states } = await setUp();
  test.network.freeze();
  sleep(60_000);
  await test.clock.advance(SOON_MS);
  expect(states).toEqual([]);
});

it('a HELLO that waits for its answer is given up, too', async () => {
  const stubbed = stubPage();
  const { states } = await setUp();
  test.network.cut();
  await test.clock.advance(1);
  test.network.freeze();
  await test.clock.advance(2_000);
  stubbed.window.dispatchEvent(new Event('online'));
  await test.clock.advance(SOON_MS);
  test.network.thaw();
  await test.clock.advance(2_000);
  expect(states.at(-1)).toBe('established');
});
