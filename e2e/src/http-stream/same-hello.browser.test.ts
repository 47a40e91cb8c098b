import { fileURLToPath } from 'node:url';
import { cluster, httpStream, memoryCluster } from '@parlance/server';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import { createPeers } from '../kit/peers.js';
import { createResettingProxy } from '../kit/resetting-proxy.js';
import { UNLIMITED } from '../kit/unlimited.js';

/** The HELLO of a page that comes again: its browser repeats a POST by itself, and its client tries again. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of HELLOs of pages that come again: ${missing}`);
}

const ROUNDS = 20;

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

describe.skipIf(missing !== undefined)('a page', () => {
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;

  beforeAll(async () => {
    bundle = await bundleFile(fileURLToPath(new URL('../resume/reload-page.ts', import.meta.url)), {
      fromSource: true,
    });
    files = await serveCompressed(bundle.folder);
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await files?.[Symbol.asyncDispose]();
    await bundle?.[Symbol.asyncDispose]();
  });

  describe.each([1, 2])('with %d nodes', (count) => {
    it.each([
      ['its POST', 'http', 'http'],
      ['its upgrade request', 'websocket', 'websocket'],
      // A WebSocket that failed with HELLO in its request is tried without it first.
      ['its upgrade request', 'websocket,http', 'websocket'],
    ])(
      `gets one session, ${ROUNDS} of ${ROUNDS}, if a connection is reset behind %s (%s)`,
      async (_what, transports, transport) => {
        const ids: string[] = [];
        const engine = memoryCluster();
        const serve = () =>
          peers.serve({
            features: [httpStream(), ...(count > 1 ? [cluster()] : [])],
            ...(count > 1 && { engine }),
            limits: UNLIMITED,
            origins: [files.origin],
            authenticate: () => ({ principal: 'a' }),
            async onSession(session) {
              ids.push(session.id);
              for await (const { text } of session) await session.send(`heard ${text}`);
            },
          });
        const first = await serve();
        const last = count > 1 ? await serve() : first;
        // The nodes know each other then.
        await peers.dial(first.url).then((session) => session.close());

        const proxy = peers.use(await createResettingProxy([first.port, last.port]));
        const origin = `http://127.0.0.1:${proxy.port}`;
        const context = await browser.newContext();
        peers.use({ [Symbol.asyncDispose]: () => context.close() });
        const page = await context.newPage();
        let asked = 0;
        page.on('request', (request) => {
          if (request.url() === `${origin}/session/stream`) asked++;
        });
        const query = { server: `${origin}/session`, transports, withoutStore: '', later: '' };
        await page.goto(`${files.origin}/?${new URLSearchParams(query)}`);

        for (let round = 0; round < ROUNDS; round++) {
          await proxy.rearm();
          ids.length = 0;
          // Browsers repeat a request by themselves if its connection has brought an answer before.
          await page.evaluate(async (url) => {
            await (await fetch(url, { mode: 'no-cors', credentials: 'include' })).text();
          }, `${origin}/healthz`);
          await page.evaluate(() => window.test.open());
          const state = await page.evaluate(() => window.test.state);
          expect(state).toMatchObject({ failure: '', state: 'established', transport });
          expect([proxy.openings, ids]).toEqual([2, [state.id]]);
          await page.evaluate((text) => window.test.session?.send(text), `round ${round}`);
          await expect
            .poll(() => page.evaluate(() => window.test.state.texts))
            .toContain(`heard round ${round}`);
          await page.evaluate(() => window.test.session?.close());
          await expect.poll(() => first.server.sessions.size + last.server.sessions.size).toBe(0);
        }
        // Otherwise the page would have asked twice in each round.
        if (transports === 'http') expect(asked).toBeLessThan(2 * ROUNDS);
      },
    );
  });
});
