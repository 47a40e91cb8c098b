import { ProtocolError } from '../../base/errors.js';
import type { CodedBody } from '../../codec/body.js';
import type { SessionCore } from '../../session/types.js';
import { loggable } from '../loggable.js';
import type { ReceivedMessage } from '../messages/message.js';
import { answer, type RequestHandler, type ResponderOptions } from './responder.js';

export interface HandlersOptions extends Omit<ResponderOptions, 'handler'> {
  readonly core: SessionCore;
  /** Commands were given to the core. */
  readonly pump: () => void;
  /** Resolves when a stream can take more. */
  readonly ready: (streamId: number) => Promise<void>;
}

/** A handler that has not returned. */
interface Running {
  readonly controller: AbortController;
  /** Only its requester stops it. */
  runsToCompletion: boolean;
}

/** The handlers that answer the requests of one session. */
export class Handlers {
  readonly #options: HandlersOptions;
  readonly #running = new Map<number, Running>();

  constructor(options: HandlersOptions) {
    this.#options = options;
  }

  /** Resolves when the reply is complete, or nobody wants it any more. Never rejects. */
  async run(streamId: number, message: ReceivedMessage, handler: RequestHandler | undefined): Promise<void> {
    const running: Running = { controller: new AbortController(), runsToCompletion: false };
    this.#running.set(streamId, running);
    const { core, pump, ready, session, logger } = this.#options;
    // The handler takes it now.
    if (core.channel.consume(streamId, message.charge)) pump();
    const sink = {
      respond: (coded: CodedBody) => {
        core.channel.respond(streamId, coded);
        pump();
      },
      chunk: (coded: CodedBody) => {
        core.channel.chunk(streamId, coded);
        pump();
      },
      end: () => {
        core.channel.end(streamId);
        pump();
      },
      fail: (error: unknown) => {
        core.channel.fail(streamId, error);
        pump();
      },
      refuse: (error: ProtocolError) => {
        core.channel.refuse(streamId, error);
        pump();
      },
      isWanted: () => core.channel.isWanted(streamId),
      runToCompletion: () => {
        running.runsToCompletion = true;
      },
      ready: () => ready(streamId),
    };
    try {
      await answer(message, running.controller.signal, sink, { ...this.#options, handler });
    } catch (error) {
      // Nothing that one request does may end the process.
      const fields = { event: 'request.unanswered', session: session.id, err: loggable(error) };
      logger.error(fields, 'a request could not be answered');
      core.channel.fail(streamId, undefined);
      pump();
    } finally {
      message.release();
      this.#running.delete(streamId);
    }
  }

  /** The requester does not want the reply any more. */
  cancel(streamId: number): void {
    this.#running
      .get(streamId)
      ?.controller.abort(new ProtocolError('cancelled', 'the requester cancelled', { side: 'remote' }));
  }

  /** Stops all but those that run to completion. */
  abort(reason: ProtocolError): void {
    for (const { controller, runsToCompletion } of this.#running.values()) {
      if (!runsToCompletion) controller.abort(reason);
    }
  }
}
