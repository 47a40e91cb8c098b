import { ENGINE_TIMEOUT_MS } from '../engine.js';
import type { RedisChannels, RedisSource } from './client.js';
import { type Lane, RedisConnection } from './connection.js';

/** The delay before a channel that could not be subscribed to is tried again, in milliseconds. */
const RETRY_MS = 1_000;
/** How often a connection on which nothing may be said for long is asked whether it lives, in milliseconds. */
export const PING_MS = 2 * ENGINE_TIMEOUT_MS;
/** Channels that are being subscribed to. */
const MAX_SUBSCRIBING = 16_384;

/** A message; `undefined` if some may have been missed, or the channel is listened to from now on. */
type OnMessage = (message: Buffer | undefined) => void;

/** Listens to channels of Redis over one connection, which is opened for the first of them. */
export class RedisChanges {
  readonly #connection: RedisConnection<RedisChannels> | undefined;
  readonly #listeners = new Map<string, Set<OnMessage>>();
  readonly #lane: Lane = { max: MAX_SUBSCRIBING, unanswered: 0 };
  readonly #pings: Lane = { max: 1, unanswered: 0 };
  #retry: ReturnType<typeof setTimeout> | undefined;
  #pinging: ReturnType<typeof setInterval> | undefined;
  #isClosed = false;

  /** @param source does nothing if it cannot listen. */
  constructor({ listen }: RedisSource) {
    if (listen === undefined) return;
    this.#connection = new RedisConnection({
      open: () => listen((channel, message) => this.#tell(channel, message)),
      onReplaced: () => this.#subscribeAll(),
    });
  }

  /** @returns ends it. */
  listen(channel: string, onMessage: OnMessage): () => void {
    let listeners = this.#listeners.get(channel);
    if (listeners === undefined) {
      listeners = new Set();
      this.#listeners.set(channel, listeners);
      this.#subscribe(channel);
    } else queueMicrotask(() => listeners?.has(onMessage) === true && onMessage(undefined));
    listeners.add(onMessage);
    return () => {
      listeners.delete(onMessage);
      if (listeners.size > 0 || this.#listeners.get(channel) !== listeners) return;
      this.#listeners.delete(channel);
      this.#unsubscribe(channel);
    };
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    clearInterval(this.#pinging);
    this.#connection?.close();
  }

  #subscribe(channel: string): void {
    this.#ping();
    this.#connection
      ?.run(this.#lane, (channels) => channels.subscribe(channel))
      .then(
        () => this.#tell(channel, undefined),
        () => this.#tryAgain(),
      );
  }

  #unsubscribe(channel: string): void {
    // If this fails, the channel still has no listener here.
    if (this.#connection?.wire !== undefined)
      this.#connection.run(this.#lane, (channels) => channels.unsubscribe(channel)).catch(() => {});
  }

  /** A connection that is silent because it is dead is found out, and replaced. */
  #ping(): void {
    if (this.#connection === undefined || this.#pinging !== undefined) return;
    this.#pinging = setInterval(() => {
      if (this.#listeners.size > 0 && this.#connection?.wire !== undefined)
        this.#connection.run(this.#pings, (channels) => channels.ping()).catch(() => {});
    }, PING_MS);
    this.#pinging.unref();
  }

  #subscribeAll(): void {
    for (const channel of this.#listeners.keys()) this.#subscribe(channel);
  }

  #tryAgain(): void {
    if (this.#isClosed || this.#retry !== undefined) return;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#subscribeAll();
    }, RETRY_MS);
    this.#retry.unref();
  }

  #tell(channel: string, message: Buffer | undefined): void {
    for (const onMessage of [...(this.#listeners.get(channel) ?? [])]) onMessage(message);
  }
}
