import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { extname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { ProtocolError } from '@parlance/protocol';
import { assertOptions, atOnce } from '@parlance/protocol/internal';
import { createTrustedProxies, isForwarded, isLoopback } from '../transport/http/addresses.js';
import type { Listening } from '../transport/http/listener.js';
import { checkHost, checkOrigin, pathOf } from '../transport/http/site.js';

/** Built pages: for people on this machine, such as those of `parlance serve`, and the dashboard of the admin port. */

export interface UserInterfaceOptions {
  /** Folder of the built pages: `PAGES` of `@parlance/cli/pages` has the chat page and the inspector. */
  readonly folder: string;
  /** Further names of the server, besides those of loopback. @default none */
  readonly hosts?: readonly string[] | undefined;
  /** Changes a document before it is served. @default served as built */
  readonly edit?: ((html: string) => string) | undefined;
}

/** Answers a request for one of the pages or their files. Returns `false` for other requests. */
export type UserInterface = (request: IncomingMessage, response: ServerResponse) => boolean;

/** The folder of the built dashboard. */
const DASHBOARD = fileURLToPath(new URL('../../dist/ui', import.meta.url));

const HTML = 'text/html; charset=utf-8';
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': HTML,
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

/** The document of each page for people on this machine, by its path. */
const LOCAL_PAGES = { '/': 'index.html', '/inspect': 'inspect.html' };
const ADMIN_PAGES = { '/': 'admin.html' };
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
export function createUserInterface(options: UserInterfaceOptions): UserInterface {
  assertOptions(options, { folder: 'text', hosts: 'list', edit: 'function' }, 'createUserInterface');
  const { folder, hosts, edit } = options ?? {};
  if (folder === undefined)
    throw new ProtocolError('invalid_option', 'folder: name one, such as PAGES of @parlance/cli/pages');
  const files = readFiles(folder, LOCAL_PAGES, edit);

  return (request, response) => {
    const file = fileFor(request, files);
    if (file === undefined || !isLocal(request)) return false;
    const refusal = refusalOf(request, hosts);
    if (refusal === undefined) return send(request, response, file);
    response.writeHead(403, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
    response.end(`${refusal}\n`);
    return true;
  };
}

/**
 * Why a request is not one of a page on this machine: it is for a name that is neither of loopback nor one of `hosts`, or from a page of
 * another origin. For what is answered beside the pages. Whether it has come over loopback, the port decides.
 *
 * @returns a sentence for the client; `undefined` if nothing is wrong.
 */
export function refusalOf(request: IncomingMessage, hosts: readonly string[] = []): string | undefined {
  const site = { origins: [], hosts, trustedProxies: NO_PROXIES };
  return (checkHost(request, site) ?? checkOrigin(request, site))?.message;
}

const NO_PROXIES = createTrustedProxies([]);

/**
 * The address at which a browser on this machine finds the pages of a server; `undefined` if it cannot reach them over
 * loopback.
 */
export function addressOfPages({ url }: Pick<Listening, 'url'>): string | undefined {
  const { host, hostname } = new URL(url);
  return isLoopback(hostname.replace(/^\[|\]$/g, '')) ? `http://${host}/` : undefined;
}

/** The files of the dashboard. They hold no data, so that every client that reaches the admin port may read them. */
export function createAdminPages(): UserInterface {
  const files = readFiles(DASHBOARD, ADMIN_PAGES);
  return (request, response) => {
    const file = fileFor(request, files);
    return file !== undefined && send(request, response, file);
  };
}

function fileFor(request: IncomingMessage, files: ReadonlyMap<string, File>): File | undefined {
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  return isRead ? files.get(pathOf(request) ?? '') : undefined;
}

/** Behind a reverse proxy on this machine every client looks local. */
function isLocal(request: IncomingMessage): boolean {
  const { localAddress, remoteAddress } = request.socket;
  return isLoopback(localAddress) && isLoopback(remoteAddress) && !isForwarded(request);
}

function readFiles(
  folder: string,
  pages: { readonly '/': string },
  edit = (html: string) => html,
): ReadonlyMap<string, File> {
  const files = new Map<string, File>();
  if (statSync(join(folder, pages['/']), { throwIfNoEntry: false }) === undefined) {
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
  for (const [path, name] of Object.entries(pages)) {
    const page = files.get(`/${name}`);
    if (page !== undefined) files.set(path, page);
  }
  return files;
}

/** @returns that the request is answered. */
function send(request: IncomingMessage, response: ServerResponse, file: File): true {
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
    return true;
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
  return true;
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
