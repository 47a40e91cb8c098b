import type {
  Body,
  Message,
  ProtocolError,
  ReplyStream,
  RequestOptions,
  SendOptions,
} from '@parlance/protocol';
import { type CallHooks, contentOf, LateReply, loadable, ownContent } from '@parlance/protocol/client';
import type { ClientModule } from '../session/module.js';
import { keptOptions, type WaitingOptions, WaitingOutbound } from '../session/waiting.js';
import type { Retries } from './retries.js';

const code = loadable('retry', () => import('./retries.js'));
/** Milliseconds from a session to the code of `retryUnsent`, so that the first messages of a page do not share the network with it. */
const LOADED_AFTER_MS = 1_000;

/**
 * The sending side of a client's session: calls go to the present session or, if there is none, to the next one, and with
 * `retryUnsent` also to those that follow it.
 */
export class ClientOutbound extends WaitingOutbound {
  readonly #options: WaitingOptions;
  readonly #join: (module: ClientModule) => void;
  /** Why no session follows. */
  #ended: ProtocolError | undefined;
  /** Created with the first call that has `retryUnsent`. */
  #retries: Retries | undefined;
  /** Calls that wait for the code; messages wait behind them, so that all keep their order. */
  #waiting = 0;
  /** The code is not to be loaded beforehand any more. */
  #stop = (): void => {};

  /** @param join adds a module to the sessions. */
  constructor(options: WaitingOptions, join: (module: ClientModule) => void) {
    super(options);
    this.#options = options;
    this.#join = join;
  }

  override send(body: Body, options: SendOptions & CallHooks, agent: string | undefined): Promise<void> {
    if (!options.retryUnsent && this.#waiting === 0) return super.send(body, options, agent);
    const content = ownContent(contentOf(body));
    const kept = { ...options, isOwned: true };
    if (!options.retryUnsent) return this.#with(() => super.send(content, kept, agent));
    return this.#with((retries) => retries.send(content, kept, agent));
  }

  override request(
    body: Body,
    options: RequestOptions & CallHooks,
    agent: string | undefined,
  ): Promise<Message> {
    if (!options.retryUnsent) return super.request(body, options, agent);
    const content = ownContent(contentOf(body));
    const kept = keptOptions(options);
    return this.#with((retries) => retries.request(content, kept, agent));
  }

  override stream(body: Body, options: RequestOptions & CallHooks, agent: string | undefined): ReplyStream {
    if (!options.retryUnsent) return super.stream(body, options, agent);
    const content = ownContent(contentOf(body));
    const kept = keptOptions(options);
    const ask = (): ReplyStream => (this.#retries as Retries).stream(content, kept, agent);
    return this.#retries === undefined ? new LateReply(() => this.#load(), ask) : ask();
  }

  override ready(): void {
    super.ready();
    // It is needed when the network is away. A call that needs it before, or after that has failed, loads it itself.
    this.#stop();
    if (!code.isLoaded)
      this.#stop = this.#options.clock.after(LOADED_AFTER_MS, () => void code.load().catch(() => {}));
  }

  /** No session follows. */
  override end(error: ProtocolError): void {
    this.#ended = error;
    this.#stop();
    super.end(error);
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
    const { Retries } = await code.load();
    if (this.#retries === undefined) {
      this.#retries = new Retries(this.#options.present, this.#options.clock, () => this.#ended);
      this.#join(this.#retries);
    }
    return this.#retries;
  }
}
