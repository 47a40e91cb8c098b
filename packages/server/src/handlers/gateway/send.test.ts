import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { type BegunResponse, createSender, type RequestToSend, type Send, sendWith } from './send.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const MIB = 1024 * 1024;

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function serve(listener: RequestListener): Promise<URL> {
  server = createServer(listener);
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
}

const toSend = (more: Partial<RequestToSend> = {}): RequestToSend => ({
  method: 'POST',
  headers: new Map(),
  body: undefined,
  signal: new AbortController().signal,
  ...more,
});

async function read({ chunks }: Pick<BegunResponse, 'chunks'>): Promise<string> {
  const all: Uint8Array[] = [];
  for (;;) {
    const { value, done } = await chunks.next();
    if (done === true) return Buffer.concat(all).toString();
    all.push(value);
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}

async function* chunked(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

describe.each<[string, (url: URL) => Send]>([
  ['with node:http', (url) => createSender(url).send],
  ['with fetch', () => sendWith(fetch)],
])('%s', (_name, create) => {
  it('sends bytes with their length and chunks without, and passes on status, headers and body', async () => {
    const url = await serve(async (request, response) => {
      const { method, headers } = request;
      const body = await bodyOf(request);
      response.writeHead(201, { 'x-one': 'a', 'content-type': 'text/plain' });
      response.end(`${method} ${headers['x-mine']} ${headers['content-length']} ${body}`);
    });
    const send = create(url);
    const headers = new Map([['x-mine', 'm']]);
    const begun = await send(url, toSend({ headers, body: Buffer.from('bytes') }));
    expect(begun.status).toBe(201);
    expect(begun.headers.get('x-one')).toBe('a');
    expect(await read(begun)).toBe('POST m 5 bytes');
    const streamed = await send(url, toSend({ headers, body: chunked('in ', 'pieces') }));
    expect(await read(streamed)).toBe('POST m undefined in pieces');
    expect(await read(await send(url, toSend({ method: 'GET', headers })))).toBe('GET m undefined ');
  });

  it('follows no redirect', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end();
    });
    expect((await create(url)(url, toSend())).status).toBe(307);
  });

  it('decodes what the upstream compresses nevertheless', async () => {
    const codings = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync };
    const url = await serve((request, response) => {
      const coding = request.headers['x-coding'] as keyof typeof codings;
      response.writeHead(200, { 'content-encoding': coding }).end(codings[coding]('the text'));
    });
    for (const coding of Object.keys(codings)) {
      const headers = new Map([['x-coding', coding]]);
      expect(await read(await create(url)(url, toSend({ headers })))).toBe('the text');
    }
  });

  it('uses a connection again once a body was read to its end', async () => {
    const url = await serve((_request, response) => void response.end('x'));
    let connections = 0;
    server?.on('connection', () => connections++);
    const send = create(url);
    for (let i = 0; i < 3; i++) {
      const controller = new AbortController();
      await read(await send(url, toSend({ signal: controller.signal })));
      // It is over, so this is too late to close the connection.
      controller.abort();
      await new Promise(setImmediate);
    }
    expect(connections).toBe(1);
  });

  it('closes the connection on an abort, before the head and in the body', async () => {
    let asked = 0;
    let closed = 0;
    const url = await serve((request, response) => {
      asked++;
      response.on('close', () => closed++);
      if (request.headers['x-begin'] === 'yes') response.write('begun');
    });
    for (const begin of ['no', 'yes']) {
      const controller = new AbortController();
      const sent = create(url)(
        url,
        toSend({ headers: new Map([['x-begin', begin]]), signal: controller.signal }),
      );
      const reading = begin === 'yes' ? sent.then(read) : sent;
      const failed = expect(reading).rejects.toThrow();
      await expect.poll(() => asked).toBe(begin === 'no' ? 1 : 2);
      controller.abort(new Error('enough'));
      await failed;
    }
    await expect.poll(() => closed).toBe(2);
  });

  it('reports a connection that is refused, and one that ends early', async () => {
    const url = await serve((request, response) => {
      if (request.headers['x-begin'] === 'yes') response.write('begun', () => request.socket.destroy());
      else request.socket.destroy();
    });
    await expect(create(url)(url, toSend())).rejects.toThrow();
    const begun = await create(url)(url, toSend({ headers: new Map([['x-begin', 'yes']]) }));
    await expect(read(begun)).rejects.toThrow();
    const closed = await serve(() => {});
    await new Promise((resolve) => server?.close(resolve));
    const refused = await create(closed)(closed, toSend()).catch((error: unknown) => error);
    const { code, cause } = refused as { code?: string; cause?: { code?: string } };
    expect(code ?? cause?.code).toBe('ECONNREFUSED');
  });

  it('keeps nothing of a body that was sent', async () => {
    const url = await serve((request, response) => {
      request.resume().on('end', () => void response.end('x'));
    });
    const held = (): number => {
      collectGarbage();
      return process.memoryUsage().arrayBuffers;
    };
    let left = Infinity;
    async function* long(): AsyncGenerator<Uint8Array> {
      const before = held();
      for (let i = 0; i < 64; i++) yield new Uint8Array(MIB);
      // V8 gives the memory of what it has collected back beside us.
      for (let looks = 0; looks < 50 && left >= 16 * MIB; looks++) {
        await pause(20);
        left = held() - before;
      }
    }
    expect(await read(await create(url)(url, toSend({ body: long() })))).toBe('x');
    expect(left).toBeLessThan(16 * MIB);
  });

  it('fails with the error of a body', async () => {
    const url = await serve((request) => void request.resume());
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x');
      throw new Error('the body failed');
    }
    await expect(create(url)(url, toSend({ body: failing() }))).rejects.toThrow();
  });
});

it('fails if the upstream switches protocols', async () => {
  const url = await serve((request) => {
    request.socket.end('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n');
  });
  await expect(createSender(url).send(url, toSend())).rejects.toThrow('without a response');
});
