import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** A static server as a host of web pages runs it: every file is compressed with `gzip -9` in advance. */

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
  '.webp': 'image/webp',
};

export interface StaticFiles extends AsyncDisposable {
  readonly origin: string;
}

/** @param headers of every response, such as a Content-Security-Policy. */
export async function serveCompressed(
  folder: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<StaticFiles> {
  const files = new Map<string, { readonly type: string; readonly content: Buffer }>();
  for (const name of await readdir(folder, { recursive: true })) {
    const type = MEDIA_TYPES[extname(name)];
    if (type === undefined) continue;
    files.set(`/${name}`, { type, content: gzipSync(await readFile(join(folder, name)), { level: 9 }) });
  }
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://host');
    const file = files.get(pathname === '/' ? '/index.html' : pathname);
    if (file === undefined) return void response.writeHead(404, headers).end();
    response.writeHead(200, {
      ...headers,
      'content-type': file.type,
      'content-encoding': 'gzip',
      'content-length': file.content.length,
    });
    response.end(file.content);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
