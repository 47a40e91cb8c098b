import type { CloseResult, Logger, Message, ReplyStream, RequestOptions } from '@parlance/protocol';
import { isReachable, loggable, ProtocolError, sizeOf } from '@parlance/protocol/client';
import type { ClientSessionHost } from '../session/session.js';
import {
  Allowance,
  chargeOf,
  MAX_REPLIES,
  MAX_UNREAD,
  MAX_UPLOAD,
  MAX_WHOLE,
  PART_WINDOW,
} from './bounds.js';
import { packError, unpackError } from './packed-error.js';
import { buffersOf, chargeOfMessage, type PackedMessage, packMessage } from './packed-message.js';
import type { Pipe } from './pipe.js';
import type { Call, FromHost, FromTab, Join, ReplyHead } from './protocol.js';

export interface GuestOptions {
  readonly pipe: Pipe;
  readonly join: Join;
  /** The session, once it is open. */
  readonly session: () => ClientSessionHost | undefined;
  readonly logger: Logger;
}

/** A call of the tab that is not complete. */
interface OpenCall {
  /** `undefined` if it cannot be cancelled, or is not yet begun. */
  cancel: (() => void) | undefined;
  /** Parts that the tab has not read. */
  readonly unread: Allowance;
  /** Continues a reply that waits for its reader. */
  wake: (() => void) | undefined;
}

/** A token that a tab was asked for. */
interface Asked {
  readonly ask: number;
  readonly answer: Promise<string>;
  readonly resolve: (token: string) => void;
  readonly reject: (error: Error) => void;
}

function askedFor(ask: number): Asked {
  let settle!: Pick<Asked, 'resolve' | 'reject'>;
  const answer = new Promise<string>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { ask, answer, ...settle };
}

/** One tab as the host of its session sees it: carries its calls out, and bounds what it has not read. */
export class Guest {
  readonly join: Join;
  readonly #pipe: Pipe;
  readonly #session: () => ClientSessionHost | undefined;
  readonly #logger: Logger;
  readonly #calls = new Map<number, OpenCall>();
  /** The question that the tab has not answered yet. */
  #asked: Asked | undefined;
  #lastAsk = 0;
  /** Requests that are not complete. */
  #replies = 0;
  readonly #uploads = new Allowance(MAX_UPLOAD);
  readonly #whole = new Allowance(MAX_WHOLE);
  readonly #unread = new Allowance(MAX_UNREAD);
  /** One-way messages that did not reach the tab since it was last told. */
  #missed = 0;
  #isGone = false;

  constructor({ pipe, join, session, logger }: GuestOptions) {
    this.join = join;
    this.#pipe = pipe;
    this.#session = session;
    this.#logger = logger;
  }

  get hasLeft(): boolean {
    return this.#isGone;
  }

  post(message: FromHost, transfer?: readonly ArrayBuffer[]): void {
    if (!this.#isGone) this.#pipe.post(message, transfer);
  }

  /** @throws {ProtocolError} `bad_message` if the tab does not keep to the protocol. */
  handle(message: FromTab): void {
    switch (message.type) {
      case 'call':
        return this.#begin(message);
      case 'cancel':
        return this.#calls.get(message.call)?.cancel?.();
      case 'taken':
        return message.call === 0 ? this.#handleRead(message.charge) : this.#handleTaken(message);
      case 'received':
        return this.#whole.release(message.charge);
      case 'token':
        return this.#handleToken(message);
      case 'here':
        return;
      default:
        throw new ProtocolError(
          'bad_message',
          `a tab cannot send "${String(message.type).slice(0, 32)}" now`,
        );
    }
  }

  /** Passes a one-way message on, or counts it as missed if the tab has too many that it has not read. */
  deliver(message: PackedMessage): void {
    const charge = chargeOfMessage(message);
    if (this.#missed === 0 && this.#unread.hasRoom(charge)) {
      this.#unread.add(charge);
      return this.post({ type: 'message', message });
    }
    if (this.#missed++ > 0) return;
    const fields = { event: 'shared.missed', session: this.#session()?.id };
    this.#logger.warn(fields, 'a tab does not read its messages, so it misses some');
  }

  /** Asks the tab for new credentials. If it is asked again before it has answered, its first answer counts. */
  askToken(): Promise<string> {
    this.#asked ??= askedFor(++this.#lastAsk);
    const { ask, answer } = this.#asked;
    this.post({ type: 'ask', ask });
    return answer;
  }

  /** Cancels the requests of the tab; the messages that it has sent are delivered. */
  leave(): void {
    this.#isGone = true;
    for (const { cancel } of [...this.#calls.values()]) cancel?.();
    this.#asked?.reject(new ProtocolError('session_closed', 'the tab is gone'));
    this.#asked = undefined;
  }

  close(): void {
    this.leave();
    this.#pipe.close();
  }

  /** The last word to a tab that has left. */
  dismiss(result: CloseResult): void {
    this.#pipe.post({ type: 'left', result } satisfies FromHost);
    this.#pipe.close();
  }

  #handleRead(charge: number): void {
    this.#unread.release(charge);
    if (this.#missed === 0 || this.#unread.used > MAX_UNREAD / 2) return;
    const text = `this tab read too slowly and missed ${this.#missed === 1 ? 'a message' : `${this.#missed} messages`}`;
    this.#missed = 0;
    this.post({ type: 'interrupted', error: packError(new ProtocolError('over_budget', text)) });
  }

  #handleTaken({ call, charge }: { readonly call: number; readonly charge: number }): void {
    const open = this.#calls.get(call);
    open?.unread.release(charge);
    open?.wake?.();
  }

  #handleToken({ ask, token, error }: Extract<FromTab, { type: 'token' }>): void {
    const asked = this.#asked;
    if (asked?.ask !== ask) return;
    this.#asked = undefined;
    if (token !== undefined) asked.resolve(token);
    else asked.reject(error === undefined ? new ProtocolError('internal', 'no token') : unpackError(error));
  }

  #begin(request: Call): void {
    const { call, body } = request;
    if (this.#calls.has(call)) throw new ProtocolError('bad_message', `call ${call} is used twice`);
    const charge = chargeOf({ length: sizeOf(body) });
    const refusal = this.#refusalOf(request, charge);
    if (refusal !== undefined) return this.#end(call, { error: refusal });
    const open: OpenCall = { cancel: undefined, unread: new Allowance(PART_WINDOW), wake: undefined };
    this.#calls.set(call, open);
    this.#uploads.add(charge);
    const replies = isRequest(request.verb) ? 1 : 0;
    this.#replies += replies;
    let isUploaded = false;
    const uploaded = (): void => {
      if (!isUploaded) this.#uploads.release(charge);
      isUploaded = true;
    };
    void this.#run(request, open, uploaded)
      .then(
        (result) => this.#end(call, result),
        (error: unknown) => this.#end(call, { error }),
      )
      .finally(() => {
        uploaded();
        this.#replies -= replies;
        this.#calls.delete(call);
      })
      .catch((error: unknown) => this.#giveUp(error));
  }

  #refusalOf({ agent, verb }: Call, charge: number): ProtocolError | undefined {
    if (agent !== undefined && !isReachable(agent)) {
      return new ProtocolError('invalid_argument', 'to: expected an agent ID or an address from agents()');
    }
    if (isRequest(verb) && this.#replies >= MAX_REPLIES) {
      return new ProtocolError('too_many_streams', `a tab can have ${MAX_REPLIES} requests under way`);
    }
    if (this.#uploads.hasRoom(charge)) return undefined;
    return new ProtocolError('over_budget', `a tab can have ${MAX_UPLOAD} bytes under way to the host`);
  }

  async #run(request: Call, open: OpenCall, uploaded: () => void): Promise<Result> {
    const session = this.#session();
    if (session === undefined) throw new ProtocolError('session_closed', 'the shared session is not open');
    const { call, verb, body, agent, options: given } = request;
    const { isAbortable = false, ...options } = given as Call['options'] & RequestOptions;
    const abort = new AbortController();
    switch (verb) {
      case 'flush':
        await session.flush();
        return {};
      case 'send': {
        if (isAbortable) open.cancel = () => abort.abort(withdrawn());
        const signal = isAbortable ? abort.signal : undefined;
        await session.outbound.send(body, { ...options, signal, isOwned: true }, agent);
        return {};
      }
      case 'request': {
        open.cancel = () => abort.abort(withdrawn());
        const reply = session.outbound.request(
          body,
          { ...options, signal: abort.signal, isOwned: true },
          agent,
        );
        uploaded();
        this.post({ type: 'begun', call, id: 0 });
        return { message: this.#packWhole(await reply) };
      }
      case 'stream': {
        const reply = session.outbound.stream(body, { ...options, isOwned: true }, agent);
        uploaded();
        this.post({ type: 'begun', call, id: reply.id });
        return await this.#passOn(call, reply, open);
      }
      default:
        throw new ProtocolError('bad_message', 'a tab made an unknown call');
    }
  }

  /** @throws {ProtocolError} `over_budget` if the tab has too many replies that it has not received. */
  #packWhole(reply: Message): PackedMessage {
    const message = packMessage(reply);
    const charge = chargeOfMessage(message);
    if (!this.#whole.hasRoom(charge)) {
      throw new ProtocolError(
        'over_budget',
        `the tab has not received ${MAX_WHOLE} bytes of earlier replies`,
      );
    }
    this.#whole.add(charge);
    return message;
  }

  /** Reads a reply only as fast as the tab does, so that its sender waits for the tab. */
  async #passOn(call: number, reply: ReplyStream, open: OpenCall): Promise<Result> {
    let isCancelled = false;
    open.cancel = () => {
      isCancelled = true;
      reply.cancel();
      open.wake?.();
    };
    let known: ReplyHead['metadata'] | undefined;
    let read = 0;
    const news = (): { readonly head?: ReplyHead } => {
      const { id, metadata, keptId, position } = reply;
      if (known === metadata) return {};
      known = metadata;
      return { head: { id, metadata, keptId, after: position - read } };
    };
    const parts = reply[Symbol.asyncIterator]();
    while (!isCancelled) {
      if (open.unread.used >= PART_WINDOW) {
        await new Promise<void>((resolve) => {
          open.wake = resolve;
        });
        continue;
      }
      const result = await parts.next().catch((error: unknown) => ({ error }));
      if ('error' in result) return { error: result.error, ...news() };
      if (result.done) return news();
      read++;
      const message = packMessage(result.value);
      open.unread.add(chargeOfMessage(message));
      this.post({ type: 'part', call, message, ...news() }, buffersOf(message));
    }
    return {};
  }

  #end(call: number, { error, message, head }: Result): void {
    const session = this.#session();
    if (this.#isGone || session === undefined) return;
    const stats = statsOf(session);
    const failed = error === undefined ? {} : { error: packError(error) };
    const end: FromHost = {
      type: 'end',
      call,
      ...failed,
      ...(message && { message }),
      ...(head && { head }),
      stats,
    };
    this.post(end, message && buffersOf(message));
    if (error === undefined || error instanceof ProtocolError) return;
    this.#giveUp(error);
  }

  /** A fault of the host in one call; the tab has its error. */
  #giveUp(error: unknown): void {
    this.#logger.error(
      { event: 'shared.failed', err: loggable(error) },
      'a call of a tab failed in the host',
    );
  }
}

interface Result {
  readonly error?: unknown;
  readonly message?: PackedMessage;
  readonly head?: ReplyHead;
}

/** The counters that cross; the last selection may be that of another tab, and has a whole body. */
export function statsOf(session: ClientSessionHost): ReturnType<ClientSessionHost['stats']> {
  return { ...session.stats(), lastSelection: undefined };
}

function isRequest(verb: Call['verb']): boolean {
  return verb === 'request' || verb === 'stream';
}

function withdrawn(): ProtocolError {
  return new ProtocolError('cancelled', 'the request was cancelled');
}
