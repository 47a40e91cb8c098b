import { existsSync } from 'node:fs';
import { type Browser, chromium, type LaunchOptions } from 'playwright-core';

/** The browser of tests, checks and benches. */

const PATH = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';

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

export function launchChromium(): Promise<Browser> {
  return chromium.launch(CHROMIUM);
}
