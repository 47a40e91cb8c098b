import type {
  Body,
  Message,
  ProtocolError,
  ReplyStream,
  RequestOptions,
  SendOptions,
  SendTensorOptions,
  TensorInput,
} from '@parlance/protocol';
import { type Clock, contentOf, LateReply, loadable, type UserOutbound } from '@parlance/protocol/client';
import type { ClientPart } from '../session/part.js';
import type { Retries } from './retries.js';

/**
 * What the session of a client sends with: the present session and, for calls with `retry`, those that follow it.
 */
export class ClientOutbound implements UserOutbound {
  readonly #present: () => UserOutbound;
  readonly #clock: Clock;
  readonly #join: (part: ClientPart) => void;
  readonly #code = loadable('retry', () => import('./retries.js'));
  /** Why no session follows. */
  #ended: ProtocolError | undefined;
  /** Created with the first call that has `retry`. */
  #retries: Retries | undefined;
  /** Calls that wait for the code; messages wait behind them, so that all keep their order. */
  #waiting = 0;

  /**
   * @param present the outbound half of the present session; throws if nothing can be sent in it.
   * @param join adds a part to the sessions.
   */
  constructor(present: () => UserOutbound, clock: Clock, join: (part: ClientPart) => void) {
    this.#present = present;
    this.#clock = clock;
    this.#join = join;
  }

  send(body: Body, options: SendOptions, agent: string | undefined): Promise<void> {
    if (options.retry) {
      const content = contentOf(body);
      return this.#with((retries) => retries.send(content, options, agent));
    }
    const send = (): Promise<void> => this.#present().send(body, options, agent);
    return this.#waiting === 0 ? send() : this.#with(send);
  }

  async request(body: Body, options: RequestOptions, agent: string | undefined): Promise<Message> {
    if (!options.retry) return await this.#present().request(body, options, agent);
    const content = contentOf(body);
    return await this.#with((retries) => retries.request(content, options, agent));
  }

  stream(body: Body, options: RequestOptions, agent: string | undefined): ReplyStream {
    if (!options.retry) return this.#present().stream(body, options, agent);
    const content = contentOf(body);
    const ask = (): ReplyStream => (this.#retries as Retries).stream(content, options, agent);
    return this.#retries === undefined ? new LateReply(() => this.#load(), ask) : ask();
  }

  sendTensor(tensor: TensorInput, options: SendTensorOptions, agent: string | undefined): Promise<void> {
    return this.#present().sendTensor(tensor, options, agent);
  }

  /** No session follows. */
  end(error: ProtocolError): void {
    this.#ended = error;
  }

  #with<Result>(call: (retries: Retries) => Promise<Result>): Promise<Result> {
    return this.#retries !== undefined && this.#waiting === 0 ? call(this.#retries) : this.#later(call);
  }

  async #later<Result>(call: (retries: Retries) => Promise<Result>): Promise<Result> {
    this.#waiting++;
    const retries = await this.#load().finally(() => this.#waiting--);
    return await call(retries);
  }

  async #load(): Promise<Retries> {
    const { Retries } = await this.#code.load();
    if (this.#retries === undefined) {
      this.#retries = new Retries(this.#present, this.#clock, () => this.#ended);
      this.#join(this.#retries);
    }
    return this.#retries;
  }
}
