import { createHash } from 'node:crypto';
import type { Server as HttpServer } from 'node:http';
import { decodeHttpRequest } from '@parlance/protocol';
import {
  cluster,
  createServer,
  keptReplies,
  memoryCluster,
  type RequestHandler,
  type Server,
  type ServerOptions,
} from '@parlance/server';

/** The options of a session server with which the chat page's answers survive a reload. */
export const CHAT_OPTIONS: Pick<ServerOptions, 'authenticate' | 'features'> = {
  /**
   * Each browser profile is a principal: it has made up its token. That tells profiles apart and proves nothing; an
   * application with users verifies the token of their login here.
   */
  authenticate: ({ token }) =>
    token !== undefined && /^[0-9a-f]{32}$/.test(token) ? { principal: `profile-${digest(token)}` } : null,
  features: [
    keptReplies({
      /** Keeps what the page names, whether the embedded responder or an API answers. */
      keep(_request, { metadata }) {
        const name = decodeHttpRequest(metadata)?.headers.get('x-parlance-reply-name');
        return name !== undefined && { name };
      },
    }),
  ],
};

/** A session server that another one can replace. */
export interface Replaceable {
  readonly sessions: Server;
  /** Takes no more connections: the next server does. */
  readonly detach: () => void;
  /** Knows a server to which its sessions can move. */
  readonly hasNext: Promise<void>;
}

/**
 * Creates the session server of the chat page, and each next one. They are nodes: a page that comes back finds its session at either
 * of them, and the session moves to the next one when its answer is complete. With `redis(…)` or `postgres(…)` in place of the memory
 * of this process, the next server may be another process.
 */
export function sessionsAt(http: HttpServer, onRequest: RequestHandler): () => Replaceable {
  const engine = memoryCluster();
  return () => {
    let handleNext = () => {};
    const hasNext = new Promise<void>((resolve) => {
      handleNext = resolve;
    });
    const { features = [], ...options } = CHAT_OPTIONS;
    const sessions = createServer({
      ...{ ...options, onRequest, engine, features: [...features, cluster()] },
      logger: {
        debug() {},
        info: ({ event }) => event === 'node.joined' && handleNext(),
        warn() {},
        error: console.error,
      },
    });
    return { sessions, detach: sessions.attach(http), hasNext };
  };
}

/** Names of principals appear in logs, and tokens must not. */
function digest(token: string): string {
  return createHash('sha256').update(token).digest('hex').slice(0, 16);
}
