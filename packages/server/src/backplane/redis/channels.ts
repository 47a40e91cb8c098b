import type { RedisChannels, RedisCommands } from './client.js';

type Listen = NonNullable<RedisCommands['listen']>;

/** How long it is waited until a connection that could not be opened is opened again, in milliseconds. */
const RETRY_MS = 1_000;

/** A message; `undefined` if some may have been missed, or the channel is listened to from now on. */
type OnMessage = (message: Buffer | undefined) => void;

/** Listens to channels of Redis over one connection, which is opened for the first of them. */
export class RedisNews {
  readonly #open: () => Promise<Listen | undefined>;
  readonly #listeners = new Map<string, Set<OnMessage>>();
  #channels: Promise<RedisChannels | undefined> | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  /** @param open resolves with `undefined` if the client cannot listen. */
  constructor(open: () => Promise<Listen | undefined>) {
    this.#open = open;
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
    this.#channels?.then(
      (channels) => channels?.close(),
      () => {},
    );
  }

  #connected(): Promise<RedisChannels | undefined> {
    if (this.#channels !== undefined) return this.#channels;
    const opened = this.#open().then(async (listen) => {
      const onMessage = (channel: string, message: Buffer) => this.#tell(channel, message);
      return await listen?.({ onMessage, onReady: () => this.#subscribeAll() });
    });
    opened.catch(() => {
      this.#channels = undefined;
    });
    this.#channels = opened;
    return opened;
  }

  #subscribe(channel: string): void {
    this.#connected()
      .then((channels) => channels?.subscribe(channel))
      .then(
        () => this.#tell(channel, undefined),
        () => this.#tryAgain(),
      );
  }

  #unsubscribe(channel: string): void {
    // What is not listened to has no listener here, also if this fails.
    this.#channels?.then((channels) => channels?.unsubscribe(channel)).catch(() => {});
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
