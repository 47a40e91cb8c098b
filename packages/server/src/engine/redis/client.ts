import { ProtocolError } from '@parlance/protocol';
import { withResolvers } from '@parlance/protocol/internal';
import { OPEN_TIMEOUT_MS, type Wire } from './connection.js';

/** A client of `ioredis`, also one of a Redis Cluster. */
export interface IoredisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
  /** Needed for kept replies and recorded sessions in Redis. */
  callBuffer?(command: string, ...args: (string | Buffer)[]): Promise<unknown>;
  /**
   * Another connection with the same options. The server opens all its connections so, watches and closes them. Without, it
   * sends commands over this one, whose loss it cannot repair, and asks often for what it would otherwise wait for.
   */
  duplicate?(): IoredisDuplicate;
  /** Its commands go to several servers. @default false */
  readonly isCluster?: boolean | undefined;
}

/** A connection of `ioredis` that the server closes. */
export interface IoredisDuplicate {
  readonly status?: string | undefined;
  /** Its socket. */
  readonly stream?: IoredisStream | undefined;
  connect?(): Promise<unknown>;
  call(command: string, ...args: string[]): Promise<unknown>;
  callBuffer?(command: string, ...args: (string | Buffer)[]): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'close' | 'end' | 'ready', listener: () => void): unknown;
  on(event: 'messageBuffer', listener: (channel: Buffer, message: Buffer) => void): unknown;
  subscribe?(channel: string): Promise<unknown>;
  unsubscribe?(channel: string): Promise<unknown>;
  disconnect(): void;
}

export interface IoredisStream {
  readonly connecting?: boolean | undefined;
  readonly encrypted?: boolean | undefined;
  destroy?(): unknown;
  resetAndDestroy?(): unknown;
}

/** A client of `redis` (node-redis). */
export interface NodeRedisClient {
  sendCommand(args: (string | Buffer)[], options?: NodeRedisReplies): Promise<unknown>;
  /** As {@link IoredisClient.duplicate}. */
  duplicate?(): NodeRedisDuplicate;
}

/** How replies of one command are given: strings (`36` in RESP) as bytes. */
export interface NodeRedisReplies {
  readonly typeMapping?: { readonly 36?: BufferConstructor };
}

/** A connection of `redis` that the server opens and closes. */
export interface NodeRedisDuplicate {
  connect(): Promise<unknown>;
  sendCommand(args: (string | Buffer)[], options?: NodeRedisReplies): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end' | 'ready', listener: () => void): unknown;
  subscribe?(
    channel: string,
    listener: (message: Buffer, channel: Buffer) => void,
    bufferMode: true,
  ): Promise<unknown>;
  unsubscribe?(channel: string): Promise<unknown>;
  /** Ends it when all is answered. */
  close?(): Promise<unknown>;
  destroy(): void;
}

/** One way to give a command to Redis, whichever library is used. */
export interface RedisCommands extends Wire {
  send(command: string[]): Promise<unknown>;
  /** As {@link send}; texts in the answer are bytes. `undefined` if the client cannot. */
  readonly sendBytes?: ((command: (string | Buffer)[]) => Promise<unknown>) | undefined;
}

/** A connection that listens to channels. */
export interface RedisChannels extends Wire {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  ping(): Promise<unknown>;
}

type OnMessage = (channel: string, message: Buffer) => void;

/** Opens connections to Redis. None of them opens itself again. */
export interface RedisSource {
  /** They are all the same one, over which nothing may block. */
  readonly isShared: boolean;
  /** Commands go to several servers, each of which has some of the keys. @default false */
  readonly hasServers?: boolean | undefined;
  open(): Promise<RedisCommands>;
  /** `undefined` if the client cannot listen. */
  readonly listen?: ((onMessage: OnMessage) => Promise<RedisChannels>) | undefined;
}

/** The client of an application, which closes it. @throws {ProtocolError} `invalid_option`. */
export function adaptClient(client: IoredisClient | NodeRedisClient): RedisSource {
  // A client of ioredis has a method `sendCommand` as well.
  if (isIoredis(client)) {
    const { duplicate, call, callBuffer } = client;
    if (duplicate !== undefined)
      return ioredisSource(async () => duplicate.call(client), client.isCluster === true);
    return shared({
      send: (command) => callAll(client, call, command),
      sendBytes: callBuffer && ((command) => callAll(client, callBuffer, command)),
    });
  }
  if (isNodeRedis(client)) {
    const { duplicate } = client;
    if (duplicate !== undefined) return nodeRedisSource(async () => duplicate.call(client));
    return shared(nodeRedisCommands(client));
  }
  throw new ProtocolError('invalid_option', 'redis: client is neither one of ioredis nor one of redis');
}

/** @throws {ProtocolError} when it is opened, `unsupported` if the package `ioredis` is not installed. */
export function clientOf(url: string): RedisSource {
  return ioredisSource(async () => {
    const { Redis } = await loadIoredis();
    return new Redis(url, { connectTimeout: OPEN_TIMEOUT_MS, retryStrategy: null });
  });
}

async function loadIoredis() {
  try {
    return await import('ioredis');
  } catch (cause) {
    const message = 'redis({ url }) needs the package ioredis: run "npm install ioredis", or pass { client }';
    throw new ProtocolError('unsupported', message, { cause });
  }
}

function shared(commands: Pick<RedisCommands, 'send' | 'sendBytes'>): RedisSource {
  const ready = Promise.resolve();
  const wire = { isShared: true, ready, onLost() {}, close() {}, cut() {} };
  return { isShared: true, open: async () => ({ ...wire, ...commands }) };
}

// --- ioredis

function ioredisSource(open: () => Promise<IoredisDuplicate>, hasServers = false): RedisSource {
  return {
    isShared: false,
    hasServers,
    async open() {
      const client = await open();
      const { call, callBuffer } = client;
      return Object.assign(ioredisWire(client), {
        send: (command: string[]) => callAll(client, call, command),
        sendBytes: callBuffer && ((command: (string | Buffer)[]) => callAll(client, callBuffer, command)),
      });
    },
    async listen(onMessage) {
      const client = await open();
      client.on('messageBuffer', (channel, message) => onMessage(channel.toString(), message));
      return Object.assign(ioredisWire(client), {
        subscribe: async (channel: string) => await client.subscribe?.(channel),
        unsubscribe: async (channel: string) => await client.unsubscribe?.(channel),
        ping: () => client.call('PING'),
      });
    },
  };
}

/** Arguments of one call of a function; the stack has room for some ten thousand of them. */
const MAX_ARGUMENTS = 8_192;

/** A commit may have more of them: they go as one list, which ioredis takes apart. */
function callAll<Argument extends string | Buffer>(
  client: IoredisClient | IoredisDuplicate,
  call: (command: string, ...args: Argument[]) => Promise<unknown>,
  [name, ...rest]: Argument[],
): Promise<unknown> {
  if (rest.length > MAX_ARGUMENTS) return call.call(client, String(name), rest as never);
  return call.call(client, String(name), ...rest);
}

function ioredisWire(client: IoredisDuplicate): Wire {
  let last = new Error('the connection was closed');
  const { promise: ready, resolve, reject: fail } = withResolvers<void>();
  client.on('ready', () => resolve());
  ready.catch(() => {});
  const wire: Wire = {
    ready,
    onLost: () => {},
    close: () => client.disconnect(),
    cut() {
      client.disconnect();
      cutOff(client.stream);
    },
  };
  const lose = (): void => {
    // It would connect again.
    client.disconnect();
    fail(last);
    wire.onLost(last);
  };
  client.on('error', (error) => {
    last = error;
  });
  client.on('close', lose);
  client.on('end', lose);
  if (client.status === 'wait') client.connect?.().catch(() => {});
  return wire;
}

/** Closes with a reset, after which the kernel does not continue delivering. */
function cutOff(stream: IoredisStream | undefined): void {
  if (stream?.encrypted === true || stream?.connecting === true || stream?.resetAndDestroy === undefined)
    stream?.destroy?.();
  else {
    try {
      stream.resetAndDestroy();
    } catch {
      // It is no socket of TCP.
      stream.destroy?.();
    }
  }
}

// --- node-redis

function nodeRedisSource(open: () => Promise<NodeRedisDuplicate>): RedisSource {
  return {
    isShared: false,
    async open() {
      const client = await open();
      return Object.assign(nodeRedisWire(client), nodeRedisCommands(client));
    },
    async listen(onMessage) {
      const client = await open();
      const handleMessage = (message: Buffer, channel: Buffer) => onMessage(channel.toString(), message);
      return Object.assign(nodeRedisWire(client), {
        subscribe: async (channel: string) => await client.subscribe?.(channel, handleMessage, true),
        unsubscribe: async (channel: string) => await client.unsubscribe?.(channel),
        ping: () => client.sendCommand(['PING']),
      });
    },
  };
}

function nodeRedisCommands(
  client: NodeRedisClient | NodeRedisDuplicate,
): Pick<RedisCommands, 'send' | 'sendBytes'> {
  return {
    send: (command) => client.sendCommand(command),
    sendBytes: (command) => client.sendCommand(command, { typeMapping: { 36: Buffer } }),
  };
}

function nodeRedisWire(client: NodeRedisDuplicate): Wire {
  let isOver = false;
  const cut = (): void => {
    isOver = true;
    try {
      client.destroy();
    } catch {
      // It is closed.
    }
  };
  const { promise: ready, resolve, reject: fail } = withResolvers<void>();
  // One that was destroyed while it was opened is open afterwards all the same.
  client.on('ready', () => (isOver ? cut() : resolve()));
  ready.catch(() => {});
  const wire: Wire = {
    ready,
    onLost: () => {},
    close() {
      isOver = true;
      setTimeout(cut, OPEN_TIMEOUT_MS).unref();
      Promise.resolve(client.close?.()).then(cut, cut);
    },
    cut,
  };
  const lose = (why: Error): void => {
    if (isOver) return;
    // It would connect again.
    cut();
    fail(why);
    wire.onLost(why);
  };
  client.on('error', lose);
  client.on('end', () => lose(new Error('the connection was closed')));
  client.connect().catch(lose);
  return wire;
}

function isIoredis(client: IoredisClient | NodeRedisClient): client is IoredisClient {
  return 'call' in client && typeof client.call === 'function';
}

function isNodeRedis(client: Partial<NodeRedisClient>): client is NodeRedisClient {
  return 'sendCommand' in client && typeof client.sendCommand === 'function';
}
