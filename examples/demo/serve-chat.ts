import type { Server as HttpServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { createServer, type Server } from '@parlance/server';
import { createServer as createViteServer } from 'vite';
import { createAnswerer } from './answerer.js';
import { CHAT_OPTIONS } from './chat-options.js';

export interface ChatPageOptions {
  /** Preferred port; if it is taken, the next free one is used. @default 5173 */
  readonly port?: number | undefined;
  /** Pause of the embedded responder between two words, in milliseconds. @default 25, the pace of a model */
  readonly delayMs?: number | undefined;
  /** Folder for dependencies that Vite has bundled. @default next to the page's packages */
  readonly cacheDir?: string | undefined;
  /** Whether to reload the page when its sources change. @default true */
  readonly watch?: boolean | undefined;
}

export interface ChatPage {
  readonly url: string;
  /** The server that the page connects to. */
  readonly sessions: Server;
  close(): Promise<void>;
}

/** Serves the chat page from its sources and a session server on one port, so that they have one origin. */
export async function startChatPage(options: ChatPageOptions = {}): Promise<ChatPage> {
  const { port = 5173, delayMs = 25, cacheDir, watch = true } = options;
  const root = fileURLToPath(new URL('../chat', import.meta.url));
  const vite = await createViteServer({
    root,
    configFile: `${root}/vite.config.ts`,
    server: { host: '127.0.0.1', port, ...(watch ? {} : { watch: null }) },
    // Hides warnings about packages without source maps.
    logLevel: 'error',
    ...(cacheDir === undefined ? {} : { cacheDir }),
  });
  if (vite.httpServer === null) throw new Error('Vite runs without an HTTP server');
  const { onRequest, model, isEmbedded } = createAnswerer({ delayMs });
  const sessions = createServer({ ...CHAT_OPTIONS, onRequest });
  sessions.attach(vite.httpServer as HttpServer);
  await vite.listen();
  return {
    url: `${vite.resolvedUrls?.local[0]}${isEmbedded ? '' : `?model=${encodeURIComponent(model)}`}`,
    sessions,
    async close() {
      await sessions.close();
      await vite.close();
    },
  };
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
