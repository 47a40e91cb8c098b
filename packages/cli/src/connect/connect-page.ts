import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { InspectionEvent } from '@parlance/client/inspect';
import { createUserInterface, refusalOf } from '@parlance/server/ui';
import { PAGES } from '../base/pages.js';
import { isEqual } from '../base/secret.js';

/** The page of `parlance connect --ui`: an inspector that shows what this command sees. */
export interface ConnectPage {
  /** Holds the key that the page presents. */
  readonly url: string;
  add(event: InspectionEvent): void;
  close(): Promise<void>;
}

export interface ConnectPageOptions {
  /** Port on loopback; 0 for any free one. */
  readonly port: number;
  /** Folder of the built pages. @default the pages of this package */
  readonly folder?: string | undefined;
}

/** Events that a page gets when it is opened late. */
const MAX_EVENTS = 6_000;
/** Pages that are open at a time. */
const MAX_READERS = 8;
/** Bytes that wait for a page; one that reads more slowly is left. */
const MAX_WAITING = 64 * 1024 * 1024;
/** How long a page may take to read the last events, in milliseconds. */
const MAX_FLUSH_MS = 1_000;
const KEY_BYTES = 18;

/** @throws {ProtocolError} `invalid_option` if the pages are not built. */
export async function openConnectPage({ port, folder = PAGES }: ConnectPageOptions): Promise<ConnectPage> {
  const files = createUserInterface({ folder });
  const key = randomBytes(KEY_BYTES).toString('base64url');
  const lines: string[] = [];
  const readers = new Set<ServerResponse>();

  const refuse = (response: ServerResponse, status: number, text: string) => {
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
    response.end(`${text}\n`);
  };
  const write = (response: ServerResponse, line: string) => {
    response.write(line);
    if (response.writableLength > MAX_WAITING) response.destroy();
  };
  const answerEvents = (request: IncomingMessage, response: ServerResponse) => {
    const refusal = refusalOf(request);
    if (refusal !== undefined) return refuse(response, 403, refusal);
    if (request.method !== 'GET') return refuse(response, 405, 'only GET is answered');
    if (!isEqual(request.headers.authorization, `Bearer ${key}`))
      return refuse(response, 401, 'the key is missing or wrong');
    if (readers.size >= MAX_READERS) return refuse(response, 503, `at most ${MAX_READERS} pages are served`);
    response.writeHead(200, {
      'content-type': 'application/x-ndjson',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    readers.add(response);
    response.once('close', () => readers.delete(response));
    response.flushHeaders();
    for (const line of lines) write(response, line);
  };
  const server = createServer((request, response) => {
    const path = request.url?.split('?', 1)[0];
    if (path === '/events') answerEvents(request, response);
    // The chat page has nothing to talk to here.
    else if (path === '/' || !files(request, response)) refuse(response, 404, 'the inspector is at /inspect');
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const { port: opened } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${opened}/inspect#key=${key}`,
    add(event) {
      const line = `${JSON.stringify(event)}\n`;
      lines.push(line);
      if (lines.length > MAX_EVENTS) lines.shift();
      for (const reader of readers) write(reader, line);
    },
    async close() {
      const closed = new Promise((resolve) => void server.close(resolve));
      const ended = [...readers].map((reader) => new Promise<void>((resolve) => reader.end(resolve)));
      await Promise.race([Promise.all(ended), pause(MAX_FLUSH_MS, undefined, { ref: false })]);
      // A browser also opens connections on which it asks for nothing; Node does not count them as idle.
      server.closeAllConnections();
      await closed;
    },
  };
}
