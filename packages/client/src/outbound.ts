import type {
  Body,
  Message,
  ProtocolError,
  ReplyStream,
  RequestOptions,
  SendOptions,
  SendTensorOptions,
  SessionReset,
  TensorInput,
} from '@parlance/protocol';
import { type Clock, contentOf, LateReply, loadable, type UserOutbound } from '@parlance/protocol/client';
import type { Retries } from './retries.js';

/**
 * What the session of a client sends with: the present session and, for calls with `retry`, those that follow it.
 */
export class ClientOutbound implements UserOutbound {
  readonly #present: () => UserOutbound;
  readonly #clock: Clock;
  readonly #code = loadable('retry', () => import('./retries.js'));
  #ended: ProtocolError | undefined;
  /** Created with the first call that has `retry`. */
  #retries: Retries | undefined;
  /** Messages that wait for the code; others wait behind them, so that all keep their order. */
  #waiting = 0;

  /** @param present the outbound half of the present session; throws if nothing can be sent in it. */
  constructor(present: () => UserOutbound, clock: Clock) {
    this.#present = present;
    this.#clock = clock;
  }

  send(body: Body, options: SendOptions, agent: string | undefined): Promise<void> {
    let send = (): Promise<void> => this.#present().send(body, options, agent);
    if (options.retry) {
      const content = contentOf(body);
      send = () => this.#loaded.send(content, options, agent);
      if (this.#retries === undefined) return this.#sendLater(send);
    }
    return this.#waiting === 0 ? send() : this.#sendLater(send);
  }

  async request(body: Body, options: RequestOptions, agent: string | undefined): Promise<Message> {
    if (!options.retry) return await this.#present().request(body, options, agent);
    const content = contentOf(body);
    await this.#load();
    return await this.#loaded.request(content, options, agent);
  }

  stream(body: Body, options: RequestOptions, agent: string | undefined): ReplyStream {
    if (!options.retry) return this.#present().stream(body, options, agent);
    const content = contentOf(body);
    const ask = (): ReplyStream => this.#loaded.stream(content, options, agent);
    return this.#retries === undefined ? new LateReply(() => this.#load(), ask) : ask();
  }

  sendTensor(tensor: TensorInput, options: SendTensorOptions, agent: string | undefined): Promise<void> {
    return this.#present().sendTensor(tensor, options, agent);
  }

  /** A session is ready: what waits moves on to it. */
  resume(): void {
    this.#retries?.resume();
  }

  /** What was lost with a session, without what moves on to the next one. */
  lossOf(reset: SessionReset): SessionReset {
    return this.#retries?.lossOf(reset) ?? reset;
  }

  /** No session follows. */
  end(error: ProtocolError): void {
    this.#ended = error;
    this.#retries?.end(error);
  }

  get #loaded(): Retries {
    return this.#retries as Retries;
  }

  async #load(): Promise<void> {
    const { Retries } = await this.#code.load();
    if (this.#retries !== undefined) return;
    this.#retries = new Retries(this.#present, this.#clock);
    if (this.#ended !== undefined) this.#retries.end(this.#ended);
  }

  async #sendLater(send: () => Promise<void>): Promise<void> {
    this.#waiting++;
    await this.#load().finally(() => this.#waiting--);
    await send();
  }
}
