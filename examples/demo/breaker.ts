import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Server } from '@parlance/server';
import type { Replaceable } from './chat-options.js';

/**
 * Breaks the connections of the chat page on request, so that people can see what a session survives. Only the demo
 * has this: a server for anything else must not let its clients touch its sockets.
 */
export interface Breaker {
  /** The present session server. */
  readonly sessions: Server;
  /** Tells the page where to send its wishes. */
  mark(html: string): string;
  /** Carries out a wish of the page, or answers for its session. Returns `false` for other requests. */
  respond(request: IncomingMessage, response: ServerResponse): boolean;
  close(): Promise<void>;
}

export interface BreakerOptions {
  readonly http: HttpServer;
  /** Creates a session server and attaches it. */
  readonly restart: () => Replaceable;
  /** @default 10,000 */
  readonly freezeMs?: number | undefined;
  /** How long a page that was cut off cannot come back. @default 3,000 */
  readonly absenceMs?: number | undefined;
}

const PREFIX = '/demo/';
const OWN_HOST = /^(?:localhost|127\.0\.0\.1)(?::\d+)?$/;
/** Running answers may finish, as in a deployment. */
const DRAIN_TIMEOUT_MS = 60_000;
/** Within which the next server is ready. */
const NEXT_WITHIN_MS = 10_000;
/** The delay after which pages come back, at most. */
const RETURN_WITHIN_MS = 1_000;

export function createBreaker({
  http,
  restart,
  freezeMs = 10_000,
  absenceMs = 3_000,
}: BreakerOptions): Breaker {
  const sockets = new Map<string, Socket>();
  const closing = new Set<Promise<unknown>>();
  let present = restart();

  /** Tabs that cannot connect: until when, in milliseconds. */
  const absent = new Map<string, number>();

  /** The page names its tab in the addresses of its session. Returns `false` if it cannot connect now. */
  const admits = ({ socket, url, method }: IncomingMessage): boolean => {
    const { pathname, searchParams } = new URL(url ?? '/', 'http://host');
    const tab = searchParams.get('tab');
    if (tab === null || pathname.startsWith(PREFIX)) return true;
    if ((absent.get(tab) ?? 0) > Date.now()) {
      socket.destroy();
      return false;
    }
    absent.delete(tab);
    // Over HTTP, that of the stream: what the page sends comes by others.
    if (method === 'POST' && !pathname.endsWith('/stream')) return true;
    sockets.set(tab, socket);
    socket.once('close', () => {
      if (sockets.get(tab) === socket) sockets.delete(tab);
    });
    return true;
  };
  http.prependListener('upgrade', (request: IncomingMessage) => {
    // No session server takes it, and as this listener is there, neither does Node: the socket would keep `http` open.
    if (http.listenerCount('upgrade') === 1) request.socket.destroy();
    else admits(request);
  });

  const actions = {
    /** The connection is gone without a word, as when a cable is pulled: code 1006. */
    cut(socket: Socket | undefined, tab: string) {
      absent.set(tab, Date.now() + absenceMs);
      socket?.destroy();
    },
    /** Nothing passes in either direction, and nothing says so. */
    freeze(socket: Socket | undefined) {
      if (socket === undefined) return;
      socket.pause();
      socket.cork();
      setTimeout(() => {
        socket.uncork();
        socket.resume();
      }, freezeMs).unref();
    },
    restart() {
      const { sessions: old, detach, hasNext } = present;
      detach();
      present = restart();
      const options = { timeoutMs: DRAIN_TIMEOUT_MS, returnWithinMs: RETURN_WITHIN_MS };
      const hasWaited = sleep(NEXT_WITHIN_MS, undefined, { ref: false });
      const drained = Promise.race([hasNext, hasWaited])
        .then(() => old.drain(options))
        .then(() => old.close());
      closing.add(drained);
      void drained.finally(() => closing.delete(drained));
    },
  };

  const wishes = new Map<string, (socket: Socket | undefined, tab: string) => void>(Object.entries(actions));

  return {
    get sessions() {
      return present.sessions;
    },
    mark: (html) => html.replace('<html ', `<html data-demo="${PREFIX}" data-freeze-ms="${freezeMs}" `),
    respond(request, response) {
      if (!admits(request)) return true;
      const { pathname, searchParams } = new URL(request.url ?? '/', 'http://host');
      if (!pathname.startsWith(PREFIX)) return present.sessions.respond(request, response);
      const { host = '', origin } = request.headers;
      const action = wishes.get(pathname.slice(PREFIX.length));
      // Pages of other sites can reach this port as well, also under a name of theirs.
      const isOwn = OWN_HOST.test(host) && origin === `http://${host}`;
      const isWish = request.method === 'POST' && isOwn && action !== undefined;
      const tab = searchParams.get('tab') ?? '';
      if (isWish) action(sockets.get(tab), tab);
      response.writeHead(isWish ? 204 : 403).end();
      return true;
    },
    async close() {
      await Promise.all(closing);
      await present.sessions.close();
    },
  };
}
