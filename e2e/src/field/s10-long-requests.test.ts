import { type AddressInfo, connect as connectSocket, createServer } from 'node:net';
import { type ClientOptions, connect } from '@parlance/client';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createPeers, failure } from '../kit/peers.js';

/** Something on the way that refuses long requests, and classes of WebSockets that do not say what it has answered. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

type Constructor = NonNullable<ClientOptions['WebSocket']>;

/** Tells as little of an error as the WebSocket of a browser, of Deno, or of Node from 22 on. */
function quiet(event: object): Constructor {
  return class extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      this.on('error', () => {});
    }
    // biome-ignore lint/suspicious/noExplicitAny: the listener is that of any event
    override addEventListener(type: any, listener: any): void {
      super.addEventListener(type, (given: object) =>
        listener(type === 'error' ? { type, ...event } : given),
      );
    }
  } as unknown as Constructor;
}

const CLASSES: readonly (readonly [string, Constructor | undefined])[] = [
  ['ws', WebSocket as unknown as Constructor],
  ['a browser', quiet({})],
  ['Node 22', quiet({ message: 'Received network error or non-101 status code.', error: new TypeError('') })],
  ['the WebSocket of this runtime', (globalThis as { WebSocket?: Constructor }).WebSocket],
];

/** A proxy that answers requests with such a header in its own way. */
async function proxyTo(port: number, answer: string | undefined, refuses: (head: string) => boolean) {
  let requests = 0;
  const server = createServer((near) => {
    near.on('error', () => {});
    near.once('data', (data) => {
      requests++;
      if (refuses(data.toString('latin1'))) {
        if (answer === undefined) near.destroy();
        else near.end(answer === '' ? '' : `HTTP/1.1 ${answer} No\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      const far = connectSocket(port, '127.0.0.1');
      far.on('error', () => near.destroy());
      near.on('close', () => far.destroy());
      far.write(data);
      near.pipe(far).pipe(near);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  peers.use({ [Symbol.asyncDispose]: async () => void server.close() });
  const { port: own } = server.address() as AddressInfo;
  return { url: `ws://127.0.0.1:${own}/session`, requests: () => requests };
}

const isLong = (head: string) => head.length > 1_100;
const token = async () => 't'.repeat(900);

describe.each(CLASSES)('with %s', (_class, WebSocketClass) => {
  it.runIf(WebSocketClass).each(['400', '413', '431', '500', '', undefined])(
    'a client whose first request is answered with %j sends a short one',
    async (answer) => {
      const { port } = await peers.serve({
        authenticate: () => ({ principal: 'ann' }),
        onRequest: () => 'fine',
      });
      const proxy = await proxyTo(port, answer, isLong);
      const session = peers.use(await connect(proxy.url, { WebSocket: WebSocketClass, token }));
      expect((await session.request('x')).text).toBe('fine');
      expect(proxy.requests()).toBe(2);
    },
  );

  it.runIf(WebSocketClass)('a client sends no third request', async () => {
    const proxy = await proxyTo(0, '431', () => true);
    const error = await failure(connect(proxy.url, { WebSocket: WebSocketClass, token }));
    expect([error.code, proxy.requests()]).toEqual(['connection_failed', 2]);
  });
});

it.each(['401', '403', '404', '429', '502', '503', '504'])(
  'HTTP %s says enough, if it is known',
  async (status) => {
    const proxy = await proxyTo(0, status, () => true);
    const options = { WebSocket: WebSocket as unknown as Constructor, token };
    const error = await failure(connect(proxy.url, options));
    expect(error.message).toContain(`HTTP ${status}`);
    expect(proxy.requests()).toBe(1);
    if (status.startsWith('5')) expect(error.message).toContain('does not reach it');
  },
);

describe('a server whose URL has the wrong scheme, or whose certificate is not trusted', () => {
  it('is named if it has no TLS', async () => {
    const { url } = await peers.serve();
    const secure = url.replace('ws:', 'wss:');
    const error = await failure(connect(secure, { WebSocket: WebSocket as unknown as Constructor }));
    expect(error.message).toMatch(/does not speak TLS; .*use ws:|use ws:/);
    const page = await failure(connect(secure, { WebSocket: quiet({}) }));
    expect(page.message).toContain('a server without TLS needs ws:');
    const plain = await failure(connect('ws://127.0.0.1:1/session', { WebSocket: quiet({}) }));
    expect(plain.message).not.toContain('TLS');
  });

  it.each([
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'NODE_EXTRA_CA_CERTS'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'NODE_EXTRA_CA_CERTS'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'NODE_EXTRA_CA_CERTS'],
    ['CERT_HAS_EXPIRED', 'has expired'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'not for the name api.example'],
  ])('is named for %s', async (code, words) => {
    const reported = quiet({ message: code, error: Object.assign(new Error(code), { code }) });
    const { port } = await peers.serve({ onSession: () => {} });
    class Failing extends (reported as unknown as typeof WebSocket) {
      constructor(_url: string, protocols: string[]) {
        super(`ws://127.0.0.1:${port}/nowhere`, protocols);
      }
    }
    const error = await failure(
      connect('wss://api.example/session', { WebSocket: Failing as unknown as Constructor }),
    );
    expect(error.message).toContain('certificate');
    expect(error.message).toContain(words);
  });
});
