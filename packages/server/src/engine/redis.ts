import { ProtocolError } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';
import type { Engine } from './engine.js';
import { redisReplies } from './logs/redis.js';
import { adaptClient, clientOf, type IoredisClient, type NodeRedisClient } from './redis/client.js';
import { RedisLink } from './redis/link.js';
import { redisStore } from './redis/store.js';

export type {
  IoredisClient,
  IoredisDuplicate,
  IoredisStream,
  NodeRedisClient,
  NodeRedisDuplicate,
  NodeRedisReplies,
} from './redis/client.js';

export interface RedisOptions {
  /** For example `redis://:password@10.0.0.5:6379/0`, or `rediss://` for TLS. Needs the package `ioredis`. */
  readonly url?: string | undefined;
  /**
   * A client of `ioredis` or of `redis`, in place of `url`, which says how to connect: the server opens connections of its own
   * with its method `duplicate`, and closes them. The application closes the client.
   */
  readonly client?: IoredisClient | NodeRedisClient | undefined;
  /** The beginning of every key; servers that share a Redis and nothing else need different ones. @default 'parlance' */
  readonly prefix?: string | undefined;
}

const KINDS = { url: 'text', client: ['object', 'function'], prefix: 'text' } as const;

/**
 * Joins nodes that share a Redis (6.2 or newer) or a Valkey. It must not evict keys (`maxmemory-policy noeviction`); this
 * and the version are checked when a server starts.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function redis(options: RedisOptions): Engine {
  assertOptions(options, KINDS, 'redis');
  const { url, client, prefix = 'parlance' } = options;
  if ((url === undefined) === (client === undefined))
    throw new ProtocolError('invalid_option', 'redis: give either url or client');
  // An error must not show the URL, which may hold a password.
  if (url !== undefined && !(URL.canParse(url) && /^rediss?:$/.test(new URL(url).protocol)))
    throw new ProtocolError('invalid_option', 'redis: url must begin with redis:// or rediss://');
  if (!/^[\w.:{}-]{1,64}$/.test(prefix))
    throw new ProtocolError('invalid_option', 'redis: prefix must be 1 to 64 letters, digits or "_.:{}-"');
  const source = client === undefined ? clientOf(url as string) : adaptClient(client);
  const engine: Engine = {
    connect: () => new RedisLink(prefix, source),
    connectLogs: () => redisReplies(prefix, source),
    // Several servers cannot be looked at as a whole.
    ...(source.hasServers !== true && { connectStore: () => redisStore(prefix, source) }),
  };
  return engine;
}
