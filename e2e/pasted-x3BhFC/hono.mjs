// hono.mjs
import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import WebSocket from 'ws';

const app = new Hono();
app.get('/hello/:name', (c) => c.json({ hello: c.req.param('name'), session: c.env.session.id }));
app.post('/size', async (c) => c.text(`${(await c.req.parseBody()).file.size} bytes`));
app.get('/count', (c) =>
  streamSSE(c, async (stream) => {
    for (let i = 1; i <= 3; i++) await stream.writeSSE({ data: String(i) });
  }),
);

const server = createServer({ onFetch: app.fetch });
const { url } = await server.listen();

const session = await connect(url, { WebSocket, onFetch: () => new Response('I am the client') });
console.log(await (await session.fetch('/hello/Ada')).json());
const form = new FormData();
form.set('file', new Blob(['x'.repeat(5_000_000)]));
console.log(await (await session.fetch('/size', { method: 'POST', body: form })).text());
console.log(await (await session.fetch('/count')).text());
for (const each of server.sessions.values()) console.log(await (await each.fetch('/')).text());
await server.close();
