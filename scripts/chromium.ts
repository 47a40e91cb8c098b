import { existsSync } from 'node:fs';
import { type Browser, chromium, type LaunchOptions } from 'playwright-core';
import { isFull } from './extent.js';

/** The browser of tests, checks and benches. */

const WHOLE = '/usr/bin/chromium';
/**
 * The same engine without a window, which takes a third of the processor time: the whole browser starts two more processes for
 * each page, to draw its toolbar and to be ready for the next page.
 */
const SHELL = '/usr/bin/chromium-headless-shell';

const GIVEN = process.env['CHROMIUM_PATH'];
const PATH = GIVEN ?? (!isFull && existsSync(SHELL) ? SHELL : WHOLE);

/** Why no browser can start; `undefined` if one can. */
export function chromiumMissing(): string | undefined {
  if (existsSync(PATH)) return undefined;
  return `no Chromium at ${PATH}; install it (Debian: apt-get install chromium) or set CHROMIUM_PATH`;
}

/** How to launch it. */
export const CHROMIUM: LaunchOptions = {
  executablePath: PATH,
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
};

/** With its window: for measurements, and for what the engine alone does not have, such as the back/forward cache. */
export const WHOLE_CHROMIUM: LaunchOptions = { ...CHROMIUM, executablePath: GIVEN ?? WHOLE };

export function launchChromium(options = CHROMIUM): Promise<Browser> {
  return chromium.launch(options);
}
