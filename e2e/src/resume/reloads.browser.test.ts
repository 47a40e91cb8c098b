import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isFull } from '../../../scripts/extent.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import { runReloads } from '../reloads/run.js';

/** A short form of `npm run reloads`. */

const RELOADS = isFull ? 50 : 12;

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of reloaded pages: ${missing}`);
}

describe.skipIf(missing !== undefined)('a page that is loaded again in mid-answer', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
  });

  it('shows what the server generated, as do a second tab and another profile, and any of them may stop it', async () => {
    const result = await runReloads({ browser, reloads: RELOADS, stops: 6, seed: 1 });
    expect(result.faults).toEqual([]);
    expect(result.reloads).toBe(RELOADS);
    expect(result.insideCharacters).toBeGreaterThan(0);
    expect(result.stopped).toHaveLength(6);
  });
});
