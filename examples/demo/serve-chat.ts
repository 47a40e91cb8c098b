import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PAGES } from '@parlance/cli/pages';
import type { RequestHandler } from '@parlance/protocol';
import type { Server } from '@parlance/server';
import { createUserInterface } from '@parlance/server/ui';
import { type Answerer, createAnswerer } from './answerer.js';
import { createBreaker } from './breaker.js';
import { sessionsAt } from './chat-options.js';
import { withSum } from './responder.js';

export interface ChatPageOptions {
  /** Preferred port; if it is taken, a free one is used. @default 5173 */
  readonly port?: number | undefined;
  /** Pause of the embedded responder between two words, in milliseconds. @default 25, the pace of a model */
  readonly delayMs?: number | undefined;
  /** How long "Freeze" lasts, in milliseconds. @default 10,000 */
  readonly freezeMs?: number | undefined;
  /** How long a page that was cut off cannot come back, in milliseconds. @default 3,000 */
  readonly absenceMs?: number | undefined;
  /** @default the API in the environment, or the embedded responder */
  readonly onRequest?: RequestHandler | undefined;
}

export interface ChatPage {
  readonly url: string;
  /** The server that the page connects to now; another one after a restart. */
  readonly sessions: Server;
  close(): Promise<void>;
}

/** Serves the built chat page and a session server on one port, and lets the page break its connection. */
export async function startChatPage(options: ChatPageOptions = {}): Promise<ChatPage> {
  const { port = 5173, delayMs = 25, freezeMs, absenceMs } = options;
  const answerer = createAnswerer({ delayMs });
  const http = createHttpServer();
  const restart = sessionsAt(http, withSum(options.onRequest ?? answerer.onRequest));
  const breaker = createBreaker({ http, restart, freezeMs, absenceMs });
  const page = createUserInterface({ folder: PAGES, edit: (html) => breaker.mark(html) });
  http.on('request', (request, response) => {
    if (breaker.respond(request, response) || page(request, response)) return;
    response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
    response.end('Not found. The chat page is at /.\n');
  });
  await listen(http, port);
  return {
    url: addressOf(http, answerer),
    get sessions() {
      return breaker.sessions;
    },
    async close() {
      await breaker.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

function addressOf(http: HttpServer, { model, isEmbedded }: Answerer): string {
  const { port } = http.address() as AddressInfo;
  return `http://127.0.0.1:${port}/${isEmbedded ? '' : `?model=${encodeURIComponent(model)}`}`;
}

async function listen(http: HttpServer, port: number): Promise<void> {
  const listenAt = (each: number) =>
    new Promise<void>((resolve, reject) => {
      http.once('error', reject);
      http.listen(each, '127.0.0.1', () => {
        http.off('error', reject);
        resolve();
      });
    });
  try {
    await listenAt(port);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    await listenAt(0);
  }
}

/** Serves the chat page until SIGINT or SIGTERM. */
export async function serveChatPage(): Promise<void> {
  const page = await startChatPage();
  console.log(`\nThe chat page is at ${page.url} (Ctrl-C to stop)`);
  await new Promise<void>((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  await page.close();
}
