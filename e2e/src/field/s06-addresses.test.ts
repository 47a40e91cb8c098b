import { connect } from '@parlance/client';
import { createServer, type ListenOptions, type ServerOptions } from '@parlance/server';
import { expect, it } from 'vitest';
import WebSocket from 'ws';
import { failure } from '../kit/peers.js';

/** The addresses that a server gives and takes are those that clients and browsers use. */

async function serving(options: ServerOptions, listen: ListenOptions = {}) {
  const server = createServer({
    authenticate: () => ({ principal: 'ann' }),
    onRequest: () => 'here',
    ...options,
  });
  const { url } = await server.listen(listen);
  return { url, [Symbol.asyncDispose]: () => server.close() };
}

async function ask(url: string, origin?: string): Promise<string> {
  class FromPage extends WebSocket {
    constructor(address: string, protocols: string[]) {
      super(address, protocols, origin === undefined ? {} : { headers: { origin } });
    }
  }
  const session = await connect(url, { WebSocket: FromPage as never, reconnect: false });
  const { text } = await session.request('there?');
  await session.close();
  return text;
}

it.each(['127.0.0.1', '0.0.0.0', '::', '::1', 'localhost'])(
  'the URL of a server at %s is one that it admits',
  async (host) => {
    await using server = await serving({}, { host });
    expect(await ask(server.url)).toBe('here');
  },
);

it.each(['/a/b/', '//x', '/%C3%A4', '/|'])('the path %s is reached', async (path) => {
  await using server = await serving({ path });
  expect(await ask(server.url)).toBe('here');
});

it.each([
  ['capacitor://localhost', 'capacitor://localhost'],
  ['tauri://localhost', 'tauri://localhost'],
  ['file://', 'file://'],
  ['null', 'null'],
  [
    'chrome-extension://abcdefghijklmnopabcdefghijklmnop',
    'chrome-extension://abcdefghijklmnopabcdefghijklmnop',
  ],
  ['https://*.app.example', 'https://a.app.example'],
])('the origin %s admits %s, and no other', async (rule, origin) => {
  await using server = await serving({ origins: [rule] });
  expect(await ask(server.url, origin)).toBe('here');
  for (const other of ['https://evil.example', `${origin}.evil.example`])
    expect((await failure(ask(server.url, other))).code).toBe('rejected');
});

it('an app is no page of the server, whatever host it names', async () => {
  await using server = await serving({});
  const { host } = new URL(server.url);
  expect((await failure(ask(server.url, `capacitor://${host}`))).code).toBe('rejected');
  expect(await ask(server.url, `http://${host}`)).toBe('here');
});
