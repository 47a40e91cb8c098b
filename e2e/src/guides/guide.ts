import type { Browser, Page } from 'playwright-core';
import type { Pasted } from '../../../scripts/pasted.js';
import { openPage } from '../kit/chat-page.js';
import { freePort } from '../kit/cli-process.js';

export interface Means {
  readonly pasted: Pasted;
  readonly browser: Browser;
  /** The folder below that of the packages with the files of the guide. */
  readonly folder: string;
}

/** Follows a guide. @throws if something is not as the guide says. */
export type Guide = (means: Means) => Promise<void>;

/** Starts Vite, whose pages at `url` reach the server of the guide through it. @returns what starts that server, each time on the same port. */
export async function withVite(pasted: Pasted, folder: string) {
  const [port, own] = [await freePort(), await freePort()];
  const vite = pasted.start(`vite --host 127.0.0.1 --port ${own} --strictPort`, {
    folder,
    env: { SERVER: `http://127.0.0.1:${port}` },
  });
  await vite.printed('ready in');
  const serve = async () => {
    const server = pasted.start('node server.mjs', { folder, env: { PORT: port } });
    await server.printed('listening');
    return server;
  };
  return { url: `http://127.0.0.1:${own}/`, vite, serve };
}

/** The complaints of a browser whose server is killed; the client asks over HTTP too, and the proxy answers for the server. */
export const OF_A_KILL = /WebSocket|Failed to load resource|\/session\/stream: 502$/;

/** Opens a page and uses it. @param tolerated complaints of the browser. @default missing icons and files */
export async function opened(
  browser: Browser,
  url: string,
  use: (page: Page) => Promise<unknown>,
  tolerated = /favicon|404 \(Not Found\)$/,
): Promise<void> {
  await using visit = await openPage(browser, url);
  const { page, complaints } = visit;
  try {
    await use(page);
  } catch (error) {
    throw new Error(`${error}\n${page.url()} has ${await page.content()}\n${complaints.join('\n')}`);
  }
  const serious = complaints.filter((each) => !tolerated.test(each));
  if (serious.length > 0) throw new Error(`${url} complains:\n${serious.join('\n')}`);
}
