import { ProtocolError } from '../../base/errors.js';
import type { Reservation } from '../../base/memory.js';
import { whenAborted } from '../../base/when-aborted.js';
import type { ReceivedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import type { BodyToSend } from '../../link/link.js';
import type { Clock } from '../../platform/clock.js';
import type { SessionCore } from '../../session/types.js';
import { type Crashable, guard, guardLater } from '../guard.js';
import type { RequestOptions } from '../session.js';
import { createReply, type Reply, type ReplyHost } from './reply.js';
import { StreamQueue } from './stream-queue.js';

export interface RequesterOptions {
  readonly core: SessionCore;
  readonly clock: Clock;
  readonly coder: BodyCoder;
  /** Ended by a fault in a callback of a timer, signal or reader. */
  readonly session: Crashable & { pump(): void; transmit(): void };
}

type ReplyBounds = Pick<RequestOptions, 'signal' | 'timeoutMs'> & {
  readonly onBegun?: (streamId: number) => void;
};

/** Sends the requests of one session and matches their replies. */
export class Requester {
  readonly #options: RequesterOptions;
  readonly #host: ReplyHost;
  readonly #replies = new Map<number, Reply>();
  /** Replies of requests that are still being coded, or wait for a stream. */
  #unsent: Set<Reply> | undefined;
  /** Requests that wait for a stream: those of this session, and those that other sessions send to its peer. */
  readonly queue: StreamQueue<object>;

  constructor(options: RequesterOptions) {
    this.#options = options;
    this.queue = new StreamQueue({
      free: () => options.core.channel.freeStreams,
      limit: () =>
        `all ${options.core.channel.maxStreams} requests that the peer allows at a time (maxStreams)`,
      most: options.coder.limits.sessionMemory,
    });
    const { core, coder, session } = options;
    this.#host = {
      coder,
      cancel(id) {
        guard(session, () => core.channel.cancel(id));
        session.pump();
      },
      consume(id, charge) {
        if (guard(session, () => core.channel.consume(id, charge))) session.pump();
      },
    };
  }

  /**
   * Sends a request, at once if the body is coded already and the peer allows another stream, and returns its reply.
   *
   * @throws {ProtocolError} `session_closed`, `unsupported`, `message_too_large`, and `too_many_streams` if too much waits
   * for a stream, if the body is coded already; otherwise the reply fails with the error.
   */
  ask(body: BodyToSend | Promise<BodyToSend>, options: ReplyBounds): Reply {
    const reply = this.#createReply(options);
    if (body instanceof Promise) guardLater(this.#options.session, this.#beginLater(reply, body, options));
    else this.#begin(reply, body, options);
    return reply;
  }

  /**
   * Opens a stream and returns its reply.
   *
   * @param command opens the stream in the core and returns its ID.
   * @param size bytes that are held until then.
   * @throws {ProtocolError} what `command` throws; `too_many_streams`.
   */
  open(command: () => number, size: number, options: ReplyBounds): Reply {
    const reply = this.#createReply(options);
    this.#startInTurn(reply, command, size);
    return reply;
  }

  #createReply({ signal, timeoutMs }: ReplyBounds): Reply {
    const release: (() => void)[] = [];
    const reply = createReply(this.#host, () => {
      if (this.queue.leave(reply)) this.#unsent?.delete(reply);
      for (const free of release) free();
    });
    if (timeoutMs !== undefined) {
      const expire = () => {
        const why = this.queue.has(reply) ? `; ${this.queue.limit} were open` : '';
        reply.abort(new ProtocolError('timeout', `no reply within ${timeoutMs} ms${why}`));
      };
      release.push(this.#options.clock.after(timeoutMs, expire));
    }
    if (signal !== undefined) release.push(whenAborted(signal, () => reply.abort(signal.reason)));
    return reply;
  }

  /** The number of replies that are not complete. */
  get size(): number {
    return this.#replies.size + (this.#unsent?.size ?? 0);
  }

  /** @param reservation memory for the decoded body. */
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

  /** Cancels every request. */
  abort(error: Error): void {
    for (const reply of this.#open) reply.abort(error);
    this.#replies.clear();
  }

  /** The session is over: every reply fails with `error`. */
  end(error: Error): void {
    for (const reply of this.#open) reply.handleEnd(error);
    this.#replies.clear();
  }

  get #open(): Reply[] {
    return [...this.#replies.values(), ...(this.#unsent ?? [])];
  }

  /** Behind those that wait already. */
  #startInTurn(reply: Reply, command: () => number, size: number): void {
    if (this.queue.isOpen) return this.#start(reply, command);
    try {
      this.queue.enter(reply, size, () => {
        this.#unsent?.delete(reply);
        try {
          this.#start(reply, command);
        } catch {
          // The reply has the error.
        }
      });
    } catch (error) {
      reply.abort(error);
      throw error;
    }
    this.#unsent ??= new Set();
    this.#unsent.add(reply);
    this.#options.session.pump();
  }

  #begin(reply: Reply, body: BodyToSend, { onBegun }: ReplyBounds): void {
    const command = () => {
      const streamId = this.#options.core.channel.request(body);
      onBegun?.(streamId);
      return streamId;
    };
    this.#startInTurn(reply, command, body.bytes.length + (body.metadata?.length ?? 0));
  }

  #start(reply: Reply, command: () => number): void {
    try {
      reply.begin(command());
    } catch (error) {
      reply.abort(error);
      throw error;
    }
    this.#replies.set(reply.id, reply);
    const { session } = this.#options;
    // A request causes no events.
    guard(session, () => session.transmit());
  }

  async #beginLater(reply: Reply, body: Promise<BodyToSend>, options: ReplyBounds): Promise<void> {
    this.#unsent ??= new Set();
    this.#unsent.add(reply);
    try {
      const coded = await body.finally(() => this.#unsent?.delete(reply));
      // A request that was cancelled while it was being coded is not sent.
      if (!reply.isOver) this.#begin(reply, coded, options);
    } catch (error) {
      reply.abort(error);
    }
  }

  /** Passes a body to its reply. If the body cannot be decoded, only that reply fails. */
  #take(
    streamId: number,
    { charge }: ReceivedBody,
    reservation: Reservation | undefined,
    take: (reply: Reply) => void,
  ): void {
    const reply = this.#replies.get(streamId);
    if (reply === undefined) {
      reservation?.release();
      // A server gets replies that it would have relayed to a session that has ended.
      if (this.#options.core.channel.consume(streamId, charge)) this.#options.session.pump();
      return;
    }
    try {
      take(reply);
    } catch (error) {
      reservation?.release();
      reply.abort(error);
    }
  }

  /** Fails a reply because there is no memory for one of its parts. */
  refuse(streamId: number, error: ProtocolError): void {
    this.#replies.get(streamId)?.abort(error);
  }
}
