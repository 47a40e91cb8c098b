import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { extname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { ProtocolError } from '@parlance/protocol';
import { assertOptions, atOnce } from '@parlance/protocol/internal';
import { createTrustedProxies, isForwarded, isLoopback } from '../transport/http/addresses.js';
import { checkHost, checkOrigin, pathOf } from '../transport/http/site.js';

/** The pages that `parlance serve` shows to people on its own machine. */

export interface UserInterfaceOptions {
  /** Folder of the built pages. @default the pages of this package */
  readonly folder?: string | undefined;
  /** Further names of the server, besides those of loopback. @default none */
  readonly hosts?: readonly string[] | undefined;
  /** Changes a document before it is served. @default served as built */
  readonly edit?: ((html: string) => string) | undefined;
}

/** Answers a request for one of the pages or their files. Returns `false` for other requests. */
export type UserInterface = (request: IncomingMessage, response: ServerResponse) => boolean;

const BUILT = fileURLToPath(new URL('../../dist/ui', import.meta.url));

const HTML = 'text/html; charset=utf-8';
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': HTML,
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

/** The document of each page, by its path. */
const PAGES: Readonly<Record<string, string>> = { '/': 'index.html', '/inspect': 'inspect.html' };
const ADMIN_PAGE = 'admin.html';
/** Vite names the files in this folder by their content. */
const HASHED = 'assets/';

interface File {
  readonly type: string;
  readonly body: Buffer;
  readonly gzip: Buffer;
  readonly etag: string;
  readonly cacheControl: string;
}

/**
 * Serves the chat page and the inspector to browsers on this machine: requests over loopback that no proxy has forwarded, for a name of
 * loopback or one of `hosts`, and of no other origin. Everything is read here once, so that a request can name nothing
 * but these files.
 *
 * @throws {ProtocolError} `invalid_option`, also if the folder has no pages.
 */
export function createUserInterface(options: UserInterfaceOptions = {}): UserInterface {
  assertOptions(options, { folder: 'text', hosts: 'list', edit: 'function' }, 'createUserInterface');
  const { folder = BUILT, hosts = [], edit = (html: string) => html } = options;
  const files = readFiles(folder, edit);
  const site = { origins: [], hosts, trustedProxies: createTrustedProxies([]) };

  return (request, response) => {
    const path = pathOf(request);
    const file = path === undefined ? undefined : files.get(path);
    if (file === undefined || path === `/${ADMIN_PAGE}` || !isLocal(request)) return false;
    if (request.method !== 'GET' && request.method !== 'HEAD') return false;
    const refusal = checkHost(request, site) ?? checkOrigin(request, site);
    if (refusal === undefined) send(request, response, file);
    else {
      response.writeHead(403, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
      response.end(`${refusal.message}\n`);
    }
    return true;
  };
}

/** The files of the dashboard. They hold no data, so that every client that reaches the admin port may read them. */
export function createAdminPages(folder: string = BUILT): UserInterface {
  const files = readFiles(folder, (html) => html);
  return (request, response) => {
    const path = pathOf(request);
    const isPage = path === '/';
    const file = files.get(isPage ? `/${ADMIN_PAGE}` : (path ?? ''));
    if (file === undefined || (!isPage && file.type === HTML)) return false;
    if (request.method !== 'GET' && request.method !== 'HEAD') return false;
    send(request, response, file);
    return true;
  };
}

/** Behind a reverse proxy on this machine every client looks local. */
function isLocal(request: IncomingMessage): boolean {
  const { localAddress, remoteAddress } = request.socket;
  return isLoopback(localAddress) && isLoopback(remoteAddress) && !isForwarded(request);
}

function readFiles(folder: string, edit: (html: string) => string): ReadonlyMap<string, File> {
  const files = new Map<string, File>();
  if (statSync(join(folder, 'index.html'), { throwIfNoEntry: false }) === undefined) {
    throw new ProtocolError('invalid_option', `${folder} has no pages; npm run build makes them`);
  }
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const absolute = join(entry.parentPath, entry.name);
    const name = relative(folder, absolute).split(sep).join('/');
    const type = MEDIA_TYPES[extname(name)];
    if (type === undefined) continue;
    const content = readFileSync(absolute);
    const body =
      extname(name) === '.html' ? Buffer.from(atOnce(edit(content.toString('utf8')), 'edit')) : content;
    files.set(`/${name}`, {
      type,
      body,
      gzip: gzipSync(body),
      etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`,
      cacheControl: name.startsWith(HASHED) ? 'public, max-age=31536000, immutable' : 'no-cache',
    });
  }
  for (const [path, name] of Object.entries(PAGES)) {
    const page = files.get(`/${name}`);
    if (page !== undefined) files.set(path, page);
  }
  return files;
}

function send(request: IncomingMessage, response: ServerResponse, file: File): void {
  const { etag, type, cacheControl } = file;
  const headers = {
    ...SECURITY_HEADERS,
    'content-security-policy': policyFor(request.headers.host),
    'cache-control': cacheControl,
    vary: 'accept-encoding',
    etag,
  };
  if (request.headers['if-none-match'] === etag) {
    response.writeHead(304, headers).end();
    return;
  }
  const isZipped = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const body = isZipped ? file.gzip : file.body;
  response.writeHead(200, {
    ...headers,
    'content-type': type,
    'content-length': body.length,
    ...(isZipped && { 'content-encoding': 'gzip' }),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

const SECURITY_HEADERS = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

/** @param host as requested, which has passed {@link checkHost}. */
function policyFor(host = ''): string {
  // Not every browser takes `ws:` of the same host for its own.
  const own = /^[\w.:[\]-]+$/.test(host) ? ` ws://${host} wss://${host}` : '';
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    `connect-src 'self'${own}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types dompurify',
  ].join('; ');
}
