import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { fileURLToPath } from 'node:url';
import { createServer } from '@parlance/server';
import sirv from 'sirv';
import { createChat } from './chat.js';

const { HOST = '127.0.0.1', NODE_ENV, ORIGIN, PORT = '8765' } = process.env;

// All who reach the page may use the key: add `authenticate` before others can.
const server = createServer({
  onRequest: createChat(process.env),
  // Behind a proxy, the address at which browsers find the page.
  ...(ORIGIN !== undefined && { origins: [ORIGIN] }),
});
let page: RequestListener = (_request, response) => response.writeHead(503).end();
const http = createHttpServer((request, response) => {
  if (!server.respond(request, response)) page(request, response);
});
server.attach(http);

if (NODE_ENV === 'production') {
  page = sirv(fileURLToPath(new URL('./page', import.meta.url)));
} else {
  const { createServer: createVite } = await import('vite');
  const root = fileURLToPath(new URL('../page', import.meta.url));
  page = (await createVite({ root, server: { middlewareMode: true, hmr: { server: http } } })).middlewares;
}
http.listen(Number(PORT), HOST, () => {
  const address = http.address();
  const port = typeof address === 'object' ? address?.port : PORT;
  console.log(`the chat is at http://${HOST}:${port}/`);
});

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  process.once(signal, async () => {
    // Answers under way are finished first.
    await server.drain({ timeoutMs: 10_000 });
    await server.close();
    process.exit();
  });
