import { ProtocolError } from '@parlance/protocol';

/** A client of `ioredis`, also one of a Redis Cluster. */
export interface IoredisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
  /** Another connection with the same options, on which the server waits for changes. It is asked often without. */
  duplicate?(): IoredisDuplicate;
}

/** A connection of `ioredis` that the server closes. */
export interface IoredisDuplicate {
  call(command: string, ...args: string[]): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  disconnect(): void;
}

/** A client of `redis` (node-redis) that is connected, or is being connected, by the application. */
export interface NodeRedisClient {
  sendCommand(args: string[]): Promise<unknown>;
  /** Another connection with the same options, on which the server waits for changes. It is asked often without. */
  duplicate?(): NodeRedisDuplicate;
}

/** A connection of `redis` that the server opens and closes. */
export interface NodeRedisDuplicate {
  connect(): Promise<unknown>;
  sendCommand(args: string[]): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  destroy(): void;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** The longest delay between two attempts to connect, in milliseconds. */
const MAX_RETRY_MS = 1_000;

/** One way to give a command to Redis, whichever library is used. */
export interface RedisCommands {
  send(...command: string[]): Promise<unknown>;
  /** Never rejects. */
  close(): Promise<void>;
  /** Opens another connection, for a command that blocks; `undefined` if the client cannot. */
  readonly duplicate?: (() => Promise<RedisCommands>) | undefined;
}

/** The client of an application, which closes it. @throws {ProtocolError} `invalid_option`. */
export function adaptClient(client: IoredisClient | NodeRedisClient): RedisCommands {
  const close = async () => {};
  // A client of ioredis has a method `sendCommand` as well.
  if (isIoredis(client)) {
    const { duplicate } = client;
    return {
      close,
      send: (name = '', ...rest) => client.call(name, ...rest),
      duplicate: duplicate && (async () => adaptIoredis(duplicate.call(client))),
    };
  }
  if (isNodeRedis(client)) {
    const { duplicate } = client;
    return {
      close,
      send: (...command) => client.sendCommand(command),
      duplicate: duplicate && (async () => await adaptNodeRedis(duplicate.call(client))),
    };
  }
  throw new ProtocolError('invalid_option', 'redis: client is neither one of ioredis nor one of redis');
}

function adaptIoredis(client: IoredisDuplicate): RedisCommands {
  client.on('error', () => {});
  return {
    send: (name = '', ...rest) => client.call(name, ...rest),
    async close() {
      client.disconnect();
    },
  };
}

async function adaptNodeRedis(client: NodeRedisDuplicate): Promise<RedisCommands> {
  client.on('error', () => {});
  await client.connect();
  return {
    send: (...command) => client.sendCommand(command),
    async close() {
      client.destroy();
    },
  };
}

function isIoredis(client: IoredisClient | NodeRedisClient): client is IoredisClient {
  return 'call' in client && typeof client.call === 'function';
}

function isNodeRedis(client: Partial<NodeRedisClient>): client is NodeRedisClient {
  return 'sendCommand' in client && typeof client.sendCommand === 'function';
}

/**
 * A client of our own. It connects again by itself, and a command without a connection fails at once.
 *
 * @throws {ProtocolError} `unsupported` if the package `ioredis` is not installed.
 */
export async function openClient(url: string): Promise<RedisCommands> {
  const { Redis } = await loadIoredis();
  const client = new Redis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_TIMEOUT_MS,
    retryStrategy: (attempt) => Math.min(attempt * 50, MAX_RETRY_MS),
  });
  let last: Error | undefined;
  client.on('error', (error) => {
    last = error;
  });
  await client.connect().catch(() => {});
  return {
    async send(name = '', ...rest) {
      // Without a connection the client says only that there is none.
      if (client.status !== 'ready' && last !== undefined) throw last;
      return await client.call(name, ...rest);
    },
    async close() {
      client.disconnect();
    },
    duplicate: async () => await openClient(url),
  };
}

async function loadIoredis() {
  try {
    return await import('ioredis');
  } catch (cause) {
    const message = 'redis({ url }) needs the package ioredis: run "npm install ioredis", or pass { client }';
    throw new ProtocolError('unsupported', message, { cause });
  }
}
