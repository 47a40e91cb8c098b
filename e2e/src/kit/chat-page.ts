import { readFile } from 'node:fs/promises';
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { extname, join, normalize } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

/** Helpers for the tests of the chat page: a browser, a page, and servers that can fail. */

export { chromiumMissing, launchChromium } from '../../../scripts/chromium.js';

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.wasm': 'application/wasm',
};

/** An HTTP server whose connections can be cut, like those of a machine that loses power. */
export interface HttpHost extends AsyncDisposable {
  readonly http: HttpServer;
  readonly port: number;
  readonly origin: string;
  /** Ends every connection at once and stops listening. */
  cut(): Promise<void>;
}

/**
 * @param folder served as static files; without one, the server accepts only upgrades.
 * @param port 0 chooses a free one.
 */
export async function serveFiles(folder?: string, port = 0): Promise<HttpHost> {
  const http = createHttpServer(async (request, response) => {
    const path = normalize(new URL(request.url ?? '/', 'http://host').pathname);
    try {
      if (folder === undefined) throw new Error('this server serves no files');
      const file = join(folder, path.endsWith('/') ? `${path}index.html` : path);
      const content = await readFile(file);
      response.writeHead(200, { 'content-type': MEDIA_TYPES[extname(file)] ?? 'application/octet-stream' });
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  });
  const sockets = new Set<Socket>();
  http.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject);
    http.listen(port, '127.0.0.1', resolve);
  });
  const address = http.address() as AddressInfo;
  const cut = () =>
    new Promise<void>((resolve) => {
      http.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  return {
    http,
    port: address.port,
    origin: `http://127.0.0.1:${address.port}`,
    cut,
    [Symbol.asyncDispose]: cut,
  };
}

/** A page in a profile of its own, and everything it complained about. */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  /** Console errors and warnings, uncaught exceptions, and failed requests. */
  readonly complaints: string[];
}

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const context = await browser.newContext(options);
  // Against hanging only, and sooner than the test, so that it says for what it waited.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('requestfailed', (request) => {
    // A page that is left or loaded again drops the parts that it was still loading.
    const reason = request.failure()?.errorText;
    if (reason !== 'net::ERR_ABORTED') complaints.push(`${request.url()}: ${reason}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400) complaints.push(`${response.url()}: ${response.status()}`);
  });
  await page.goto(url);
  return { page, complaints, [Symbol.asyncDispose]: () => context.close() };
}
