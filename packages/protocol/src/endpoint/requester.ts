import { ProtocolError } from '../errors.js';
import type { ReceivedBody } from '../link/assembly.js';
import type { CodedBody } from '../link/link.js';
import type { Clock } from '../platform/clock.js';
import type { SessionCore } from '../session-core.js';
import type { BodyCoder } from './body-coder.js';
import { createReply, type Reply } from './reply.js';
import type { RequestOptions } from './session.js';

/** The requests of this end that wait for replies. */
export interface Requester {
  /**
   * Sends a request and returns its reply, at once where the body is coded already.
   *
   * @throws {ProtocolError} `session_closed`, `unsupported`, `message_too_large`, `too_many_streams`,
   * where the body is coded already; else the reply fails with it.
   */
  ask(body: CodedBody | Promise<CodedBody>, options: Pick<RequestOptions, 'signal' | 'timeoutMs'>): Reply;
  handlePart(streamId: number, body: ReceivedBody): void;
  handleResponse(streamId: number, body: ReceivedBody): void;
  handleEnd(streamId: number, error?: Error): void;
  /** The session is over: every reply fails with `error`. */
  end(error: Error): void;
}

export interface RequesterOptions {
  readonly core: SessionCore;
  readonly clock: Clock;
  readonly coder: BodyCoder;
  readonly onSent: (body: CodedBody) => void;
  /** Commands were given to the core. */
  readonly pump: () => void;
}

export function createRequester({ core, clock, coder, onSent, pump }: RequesterOptions): Requester {
  const replies = new Map<number, Reply>();
  /** Replies whose request is still being coded. */
  const early = new Set<Reply>();

  const begin = (reply: Reply, body: CodedBody): void => {
    const id = core.request(body);
    onSent(body);
    reply.begin(id);
    replies.set(id, reply);
    pump();
  };

  const beginLater = async (reply: Reply, body: Promise<CodedBody>): Promise<void> => {
    early.add(reply);
    try {
      const coded = await body;
      // Cancelled while it was coded: the peer never hears of it.
      if (!reply.isOver) begin(reply, coded);
    } catch (error) {
      reply.abort(error);
    } finally {
      early.delete(reply);
    }
  };

  /** A reply that cannot be decoded fails alone. */
  const guard = (streamId: number, take: (reply: Reply) => void): void => {
    const reply = replies.get(streamId);
    if (reply === undefined) return;
    try {
      take(reply);
    } catch (error) {
      reply.abort(error);
    }
  };

  return {
    ask(body, { signal, timeoutMs }) {
      const release: (() => void)[] = [];
      const reply = createReply({
        coder,
        cancel(id) {
          core.cancel(id);
          pump();
        },
        consume(id, charge) {
          if (core.consume(id, charge)) pump();
        },
        onOver() {
          for (const free of release) free();
        },
      });
      if (body instanceof Promise) void beginLater(reply, body);
      else begin(reply, body);
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
    },

    handlePart: (streamId, body) => guard(streamId, (reply) => reply.handlePart(body)),

    handleResponse(streamId, body) {
      guard(streamId, (reply) => reply.handleResponse(body));
      replies.delete(streamId);
    },

    handleEnd(streamId, error) {
      replies.get(streamId)?.handleEnd(error);
      replies.delete(streamId);
    },

    end(error) {
      for (const reply of [...replies.values(), ...early]) reply.handleEnd(error);
      replies.clear();
    },
  };
}
