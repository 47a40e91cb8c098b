import { fileURLToPath } from 'node:url';
import { createServer } from '@parlance/server';
import { createServer as createViteServer } from 'vite';
import { createResponder } from './responder.js';

/** Serves the chat page and its session server on one port until the process is told to end. */
export async function serveChatPage(): Promise<void> {
  const root = fileURLToPath(new URL('../chat', import.meta.url));
  const vite = await createViteServer({
    root,
    configFile: `${root}/vite.config.ts`,
    server: { host: '127.0.0.1', port: 5173 },
  });
  // A person reads along: words come at the pace of a model.
  const sessions = createServer({ onRequest: createResponder({ delayMs: 25 }) });
  if (vite.httpServer === null) throw new Error('Vite runs without an HTTP server');
  sessions.attach(vite.httpServer as import('node:http').Server);
  await vite.listen();
  console.log(`\nThe chat page is at ${vite.resolvedUrls?.local[0]} (Ctrl-C ends it)`);

  await new Promise<void>((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  await sessions.close();
  await vite.close();
}
