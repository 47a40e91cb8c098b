import { ProtocolError } from '@parlance/protocol';

/** A client of `ioredis`, also one of a Redis Cluster. */
export interface IoredisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
  /** Needed for kept replies in Redis. */
  callBuffer?(command: string, ...args: (string | Buffer)[]): Promise<unknown>;
  /** Another connection with the same options, on which the server waits for changes. It is asked often without. */
  duplicate?(): IoredisDuplicate;
}

/** A connection of `ioredis` that the server closes. */
export interface IoredisDuplicate {
  call(command: string, ...args: string[]): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'ready', listener: () => void): unknown;
  on(event: 'messageBuffer', listener: (channel: Buffer, message: Buffer) => void): unknown;
  subscribe?(channel: string): Promise<unknown>;
  unsubscribe?(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** A client of `redis` (node-redis) that is connected, or is being connected, by the application. */
export interface NodeRedisClient {
  sendCommand(args: (string | Buffer)[], options?: NodeRedisReplies): Promise<unknown>;
  /** Another connection with the same options, on which the server waits for changes. It is asked often without. */
  duplicate?(): NodeRedisDuplicate;
}

/** How replies of one command are given: strings (`36` in RESP) as bytes. */
export interface NodeRedisReplies {
  readonly typeMapping?: { readonly 36?: BufferConstructor };
}

/** A connection of `redis` that the server opens and closes. */
export interface NodeRedisDuplicate {
  connect(): Promise<unknown>;
  sendCommand(args: string[]): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'ready', listener: () => void): unknown;
  subscribe?(
    channel: string,
    listener: (message: Buffer, channel: Buffer) => void,
    bufferMode: true,
  ): Promise<unknown>;
  unsubscribe?(channel: string): Promise<unknown>;
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
  /** As {@link send}; texts in the answer are bytes. `undefined` if the client cannot. */
  readonly sendBytes?: ((...command: (string | Buffer)[]) => Promise<unknown>) | undefined;
  /** Opens another connection, for a command that blocks; `undefined` if the client cannot. */
  readonly duplicate?: (() => Promise<RedisCommands>) | undefined;
  /** Opens another connection, which listens to channels; `undefined` if the client cannot. */
  readonly listen?: ((host: ChannelHost) => Promise<RedisChannels>) | undefined;
}

export interface ChannelHost {
  readonly onMessage: (channel: string, message: Buffer) => void;
  /** It is connected, perhaps again, so that messages may have been missed. */
  readonly onReady: () => void;
}

/** A connection that listens to channels, and connects again by itself. */
export interface RedisChannels {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  close(): void;
}

/** The client of an application, which closes it. @throws {ProtocolError} `invalid_option`. */
export function adaptClient(client: IoredisClient | NodeRedisClient): RedisCommands {
  const close = async () => {};
  // A client of ioredis has a method `sendCommand` as well.
  if (isIoredis(client)) {
    const { duplicate, callBuffer } = client;
    return {
      close,
      send: (name = '', ...rest) => client.call(name, ...rest),
      sendBytes: callBuffer && ((name = '', ...rest) => callBuffer.call(client, String(name), ...rest)),
      duplicate: duplicate && (async () => adaptIoredis(duplicate.call(client))),
      listen: duplicate && (async (host) => ioredisChannels(duplicate.call(client), host)),
    };
  }
  if (isNodeRedis(client)) {
    const { duplicate } = client;
    return {
      close,
      send: (...command) => client.sendCommand(command),
      sendBytes: (...command) => client.sendCommand(command, { typeMapping: { 36: Buffer } }),
      duplicate: duplicate && (async () => await adaptNodeRedis(duplicate.call(client))),
      listen: duplicate && (async (host) => await nodeRedisChannels(duplicate.call(client), host)),
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

function ioredisChannels(client: IoredisDuplicate, { onMessage, onReady }: ChannelHost): RedisChannels {
  client.on('error', () => {});
  client.on('ready', onReady);
  client.on('messageBuffer', (channel, message) => onMessage(channel.toString(), message));
  return {
    subscribe: async (channel) => await client.subscribe?.(channel),
    unsubscribe: async (channel) => await client.unsubscribe?.(channel),
    close: () => client.disconnect(),
  };
}

async function nodeRedisChannels(
  client: NodeRedisDuplicate,
  { onMessage, onReady }: ChannelHost,
): Promise<RedisChannels> {
  client.on('error', () => {});
  client.on('ready', onReady);
  await client.connect();
  const handleMessage = (message: Buffer, channel: Buffer) => onMessage(channel.toString(), message);
  return {
    subscribe: async (channel) => await client.subscribe?.(channel, handleMessage, true),
    unsubscribe: async (channel) => await client.unsubscribe?.(channel),
    close: () => client.destroy(),
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
  const options = {
    connectTimeout: CONNECT_TIMEOUT_MS,
    retryStrategy: (attempt: number) => Math.min(attempt * 50, MAX_RETRY_MS),
  };
  const client = new Redis(url, {
    ...options,
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
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
    async sendBytes(name = '', ...rest) {
      if (client.status !== 'ready' && last !== undefined) throw last;
      return await client.callBuffer(String(name), ...rest);
    },
    async close() {
      client.disconnect();
    },
    duplicate: async () => await openClient(url),
    listen: async (host) => ioredisChannels(new Redis(url, { ...options, maxRetriesPerRequest: null }), host),
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
