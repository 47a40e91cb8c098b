import { randomBytes } from 'node:crypto';
import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { freePort } from '../kit/cli-process.js';
import { type Guide, opened } from './guide.js';

export const existingServer: Guide = async ({ pasted, browser, folder }) => {
  for (const program of ['express', 'fastify', 'hono', 'plain']) {
    const port = await freePort();
    const origin = `http://127.0.0.1:${port}`;
    const server = pasted.start(`node ${program}.mjs`, {
      folder,
      env: { PORT: port, JWT_SECRET: randomBytes(32).toString('hex') },
    });
    await server.printed('listening');
    const env = { SERVER: origin };
    await pasted.run('node client.mjs', ['ann said: hello'], { folder, env });
    await overHttp(origin);
    const reasons = [
      await refusal(origin, 'https://evil.example'),
      await refusal(origin, 'https://app.example'),
    ];
    // A page of the listed origin comes as far as its token.
    if (!/origin/.test(reasons[0] ?? '') || !/token/.test(reasons[1] ?? ''))
      throw new Error(reasons.join('\n'));

    const own = await freePort();
    const vite = pasted.start(`vite --host 127.0.0.1 --port ${own} --strictPort`, { folder, env });
    await vite.printed('ready in');
    await opened(browser, `http://127.0.0.1:${own}/`, (page) => page.getByText('ben said: hello').waitFor());
    await vite.kill();
    await server.kill();
  }
};

/** The server hands over the requests of clients whose network blocks WebSockets. */
async function overHttp(server: string): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const login = await fetch(`${server}/login`, { method: 'POST', headers, body: '{"name":"eve"}' });
  const { token } = (await login.json()) as { readonly token: string };
  const session = await connect(server, { token, transports: ['http'] });
  const { text } = await session.request('hello');
  if (text !== 'eve said: hello') throw new Error(`a session over HTTP was answered ${text}`);
  await session.close();
}

/** Why a page of another site that has no credentials is refused. */
async function refusal(server: string, origin: string): Promise<string> {
  class OfPage extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { origin });
    }
  }
  return await connect(server, { WebSocket: OfPage as never }).then(() => 'admitted', String);
}
