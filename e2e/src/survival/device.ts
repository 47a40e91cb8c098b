import { setTimeout as pause } from 'node:timers/promises';
import { type ClientOptions, type ClientSession, connect, type SendOptions } from '@parlance/client';
import { events } from '@parlance/client/contract';
import { ProtocolError } from '@parlance/protocol';
import WebSocket from 'ws';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { eventContract } from '../kit/event-contract.js';
import { MemoryStore } from '../kit/memory-store.js';

/** A device with a page that may be loaded again, and a proxy in front of its node. */

export interface DeviceOptions {
  /** `PRINCIPAL` or `PRINCIPAL/AGENT`. */
  readonly token: string;
  /** The port of its node, which each connection asks for. */
  readonly port: () => number;
  readonly onRequest?: ClientOptions['onRequest'];
}

export class Device {
  readonly token: string;
  /** The messages that its pages have received from the server or from agents. */
  readonly heard: string[] = [];
  readonly front: CuttingProxy;
  readonly #store = new MemoryStore();
  readonly #options: DeviceOptions;
  #session: ClientSession | undefined;
  /** Of the session that it began with. */
  #id = '';
  /** Resolves when the session ends, and with it the loop that reads it. */
  #ended: Promise<void> | undefined;
  #said = 0;
  /** The error that ended the first session of the device. */
  #loss: ProtocolError | undefined;

  private constructor(options: DeviceOptions, front: CuttingProxy) {
    this.token = options.token;
    this.#options = options;
    this.front = front;
  }

  static async dial(options: DeviceOptions): Promise<Device> {
    const device = new Device(options, await createCuttingProxy(options.port));
    await device.#open();
    return device;
  }

  get session(): ClientSession {
    return this.#session as ClientSession;
  }

  /** Another device of the same user. */
  another(): Promise<Device> {
    return Device.dial(this.#options);
  }

  /** Loads the page again. */
  async reload(): Promise<void> {
    await this.session.detach();
    await this.#open();
  }

  async #open(): Promise<void> {
    const { token, onRequest } = this.#options;
    const session = await connect(`ws://127.0.0.1:${this.front.port}/session`, {
      WebSocket,
      token,
      store: this.#store,
      reconnect: { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 30_000 },
      // On a busy machine, the first server takes longer than the 5 s of the default.
      timers: { acceptTimeoutMs: 30_000 },
      onError: () => {},
      modules: [events(eventContract)],
      ...(token.includes('/') && { agent: {} }),
      ...(onRequest && { onRequest }),
    });
    this.#session = session;
    this.#id = session.id;
    session.on('reset', ({ code, reason }) => {
      if (code !== 'reloaded') this.#lose(new ProtocolError('session_lost', reason));
    });
    this.#ended = this.#listen(session);
  }

  async #listen(session: ClientSession): Promise<void> {
    try {
      for await (const { text } of session) this.heard.push(text);
    } catch (error) {
      this.#lose(error as ProtocolError);
    }
  }

  #lose(error: ProtocolError): void {
    this.#loss ??= error;
  }

  /** A session that was at rest when its only node left is followed by another one, without a word. */
  #look(): void {
    if (this.session.id !== this.#id) this.#lose(new ProtocolError('session_lost', 'it is another session'));
  }

  /** Resolves when something is true. @throws what has ended the session before. */
  async until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isTrue())) {
      this.#look();
      if (this.#loss !== undefined) throw this.#loss;
      await pause(10);
    }
    this.#look();
    if (this.#loss !== undefined) throw this.#loss;
  }

  /** @throws what has ended the session, if that is known, and not only that it has ended. */
  async send(text: string, options?: SendOptions): Promise<void> {
    try {
      await this.session.send(text, options);
    } catch (error) {
      await this.#ended;
      throw this.#loss ?? error;
    }
  }

  /** Sends a message to the server, and waits until that has answered it with its number. */
  async say(text: string): Promise<void> {
    const answer = `${++this.#said}: ${text}`;
    await this.send(text);
    await this.until(() => this.heard.includes(answer));
  }

  async close(): Promise<void> {
    void this.#session?.close().catch(() => {});
    await this.front[Symbol.asyncDispose]();
  }
}
