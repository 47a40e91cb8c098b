import { ProtocolError } from '../../base/errors.js';
import type { Reservation } from '../../base/memory.js';
import type { BodyCoder } from '../../codec/auto/coder.js';
import type { ReceivedBody } from '../../codec/body.js';
import type { BodyToSend } from '../../link/link.js';
import type { Clock } from '../../platform/clock.js';
import type { SessionCore } from '../../session/types.js';
import { type Crashable, guard, guardLater } from '../guard.js';
import type { RequestOptions } from '../session.js';
import { createReply, type Reply } from './reply.js';

export interface RequesterOptions {
  readonly core: SessionCore;
  readonly clock: Clock;
  readonly coder: BodyCoder;
  /** Timers, signals and readers call into it from outside. */
  readonly session: Crashable;
  /** Commands were given to the core. */
  readonly pump: () => void;
}

type ReplyBounds = Pick<RequestOptions, 'signal' | 'timeoutMs'>;

/** The requests of this end that wait for replies. */
export class Requester {
  readonly #options: RequesterOptions;
  readonly #replies = new Map<number, Reply>();
  /** Replies whose request is still being coded. */
  #early: Set<Reply> | undefined;

  constructor(options: RequesterOptions) {
    this.#options = options;
  }

  /**
   * Sends a request and returns its reply, at once where the body is coded already.
   *
   * @throws {ProtocolError} `session_closed`, `unsupported`, `message_too_large`, `too_many_streams`,
   * where the body is coded already; else the reply fails with it.
   */
  ask(body: BodyToSend | Promise<BodyToSend>, options: ReplyBounds): Reply {
    const reply = this.#createReply(options);
    if (body instanceof Promise) guardLater(this.#options.session, this.#beginLater(reply, body));
    else this.#begin(reply, body);
    return reply;
  }

  /**
   * Opens a stream and returns its reply.
   *
   * @param command tells the core and returns the stream's ID.
   * @throws {ProtocolError} what `command` throws.
   */
  open(command: () => number, options: ReplyBounds): Reply {
    const reply = this.#createReply(options);
    this.#start(reply, command);
    return reply;
  }

  /** A reply that ends when its time or its caller's patience is over. */
  #createReply({ signal, timeoutMs }: ReplyBounds): Reply {
    const { core, clock, coder, session, pump } = this.#options;
    const release: (() => void)[] = [];
    const reply = createReply({
      coder,
      cancel(id) {
        guard(session, () => core.channel.cancel(id));
        pump();
      },
      consume(id, charge) {
        if (guard(session, () => core.channel.consume(id, charge))) pump();
      },
      onOver() {
        for (const free of release) free();
      },
    });
    if (timeoutMs !== undefined) {
      const expire = () => reply.abort(new ProtocolError('timeout', `no reply within ${timeoutMs} ms`));
      release.push(clock.after(timeoutMs, expire));
    }
    if (signal !== undefined) {
      const onAbort = () => reply.abort(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      release.push(() => signal.removeEventListener('abort', onAbort));
    }
    return reply;
  }

  /** Replies that are not complete. */
  get size(): number {
    return this.#replies.size;
  }

  /** @param reservation of the memory that the body takes once it is decoded. */
  handlePart(streamId: number, body: ReceivedBody, reservation?: Reservation): void {
    this.#take(streamId, body, reservation, (reply) => reply.handlePart(body, reservation));
  }

  handleResponse(streamId: number, body: ReceivedBody, reservation?: Reservation): void {
    this.#take(streamId, body, reservation, (reply) => reply.handleResponse(body, reservation));
    this.#replies.delete(streamId);
  }

  handleEnd(streamId: number, error?: Error): void {
    this.#replies.get(streamId)?.handleEnd(error);
    this.#replies.delete(streamId);
  }

  /** The session is over: every reply fails with `error`. */
  end(error: Error): void {
    for (const reply of [...this.#replies.values(), ...(this.#early ?? [])]) reply.handleEnd(error);
    this.#replies.clear();
  }

  #begin(reply: Reply, body: BodyToSend): void {
    this.#start(reply, () => this.#options.core.channel.request(body));
  }

  #start(reply: Reply, command: () => number): void {
    try {
      reply.begin(command());
    } catch (error) {
      reply.abort(error);
      throw error;
    }
    this.#replies.set(reply.id, reply);
    this.#options.pump();
  }

  async #beginLater(reply: Reply, body: Promise<BodyToSend>): Promise<void> {
    this.#early ??= new Set();
    this.#early.add(reply);
    try {
      const coded = await body;
      // Cancelled while it was coded: the peer never hears of it.
      if (!reply.isOver) this.#begin(reply, coded);
    } catch (error) {
      reply.abort(error);
    } finally {
      this.#early.delete(reply);
    }
  }

  /** A reply that cannot be decoded fails alone. */
  #take(
    streamId: number,
    { charge }: ReceivedBody,
    reservation: Reservation | undefined,
    take: (reply: Reply) => void,
  ): void {
    const reply = this.#replies.get(streamId);
    if (reply === undefined) {
      reservation?.release();
      // Nobody waits for it: at a server, one that was to go on to a session that is over.
      if (this.#options.core.channel.consume(streamId, charge)) this.#options.pump();
      return;
    }
    try {
      take(reply);
    } catch (error) {
      reservation?.release();
      reply.abort(error);
    }
  }

  /** There is no memory for a part of a reply, which fails alone. */
  refuse(streamId: number, error: ProtocolError): void {
    this.#replies.get(streamId)?.abort(error);
  }
}
