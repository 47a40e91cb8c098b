import type { Browser } from 'playwright-core';
import { type Conditions, imitate } from './visit.js';

/** Whether Chromium slows WebSockets down as it slows requests down; it has not always done so. */

const SIZE = 100_000;

export interface Delays {
  /** From `new WebSocket` to its `open` event. */
  readonly handshakeMs: number;
  /** A WebSocket message of one byte and its echo. */
  readonly roundTripMs: number;
  /** A WebSocket message of 100 kB and its echo. */
  readonly messageMs: number;
  /** An HTTP response of a few hundred bytes. */
  readonly requestMs: number;
}

/** @param echoUrl of a WebSocket server that echoes. @param pageUrl of any page. */
export async function measureDelays(
  browser: Browser,
  pageUrl: string,
  echoUrl: string,
  conditions: Conditions,
): Promise<Delays> {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    await page.goto(pageUrl);
    await imitate(await context.newCDPSession(page), conditions);
    return await page.evaluate<Delays>(`(${measureInPage})(${JSON.stringify(echoUrl)}, ${SIZE})`);
  } finally {
    await context.close();
  }
}

/** Runs in the page. */
const measureInPage = `async (url, size) => {
  let socket;
  const time = async (work) => {
    const times = [];
    for (let i = 0; i < 5; i++) {
      const start = performance.now();
      await work(i);
      times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b)[2];
  };
  const echo = (text) => new Promise((resolve) => { socket.onmessage = resolve; socket.send(text); });
  return {
    handshakeMs: await time(() => new Promise((resolve) => {
      socket = new WebSocket(url);
      socket.onopen = resolve;
    })),
    roundTripMs: await time(() => echo('x')),
    messageMs: await time(() => echo('x'.repeat(size))),
    requestMs: await time(async (i) => (await fetch('?' + i, { cache: 'no-store' })).text()),
  };
}`;
