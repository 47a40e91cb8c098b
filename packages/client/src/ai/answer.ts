import type { FollowedReply, Message, ProtocolError, ReplyStream, RequestError } from '@parlance/protocol';
import { isProtocolError } from '@parlance/protocol/client';
import type { SessionUse } from './chat-sessions.js';
import { disconnectOf } from './disconnect.js';

type Result = IteratorResult<Message, undefined>;

const OVER = { value: undefined, done: true } as const;

/** The codes with which the calls of a session fail when it ends. */
const LOST: ReadonlySet<string> = new Set(['session_lost', 'session_closed']);

/**
 * The parts of an answer, through the sessions that follow each other. If a session is lost and the server keeps the answer,
 * it is followed in the next session, from the first part that is missing.
 */
export class Answer {
  readonly #onOver: () => void;
  #use: SessionUse;
  #reply: ReplyStream | FollowedReply;
  #parts: AsyncIterator<Message>;
  /** Why the answer is followed in the next session, until a part arrives there. */
  #loss: ProtocolError | RequestError | undefined;
  /** Settles when the next session is there, or does not come. */
  #move: Promise<void> | undefined;
  /** It has ended or failed. */
  #hasEnded = false;
  #isReleased = false;
  #reading: Promise<Result> | undefined;
  #leave: ((result: Result) => void) | undefined;
  /** Resolves when no reader is left. */
  readonly #left = new Promise<Result>((resolve) => {
    this.#leave = resolve;
  });

  /**
   * @param use the session that the reply is of; it is released when nothing of the answer is read any more.
   * @param onOver called once, then.
   */
  constructor(use: SessionUse, reply: ReplyStream | FollowedReply, onOver: () => void = () => {}) {
    this.#use = use;
    this.#reply = reply;
    this.#parts = reply[Symbol.asyncIterator]();
    this.#onOver = onOver;
  }

  /**
   * @throws {ProtocolError} as the reply. If the session was lost and none follows, an error that the AI SDK takes for a
   * disconnect: see {@link disconnectOf}.
   */
  async next(): Promise<Result> {
    if (this.#leave === undefined) return OVER;
    this.#reading = this.#read();
    return await Promise.race([this.#reading, this.#left]);
  }

  /** Reads no more, and stops the handler. Rejects with the errors of `FollowedReply.stop`. */
  async stop(): Promise<void> {
    if (this.#hasEnded) return;
    const reading = this.#reading;
    this.#letGo();
    if (!('stop' in this.#reply)) {
      // A session that is lost meanwhile loses the cancellation.
      void this.#drop(reading);
      await this.#use.settled();
    }
    await this.#move?.catch(() => {});
    const reply = this.#reply;
    try {
      if ('stop' in reply) await reply.stop();
    } finally {
      drop(reply);
      this.#release();
    }
  }

  /** Reads no more; the handler continues. Until it is followed, an answer that was asked for here is read and dropped. */
  leave(): void {
    if (this.#hasEnded || this.#leave === undefined) return;
    const reading = this.#reading;
    this.#letGo();
    if (this.#move === undefined && 'stop' in this.#reply) {
      drop(this.#reply);
      this.#release();
    } else void this.#drop(reading);
  }

  #letGo(): void {
    this.#leave?.(OVER);
    this.#leave = undefined;
    // No reader waits for it any more.
    this.#reading?.catch(() => {});
  }

  async #drop(reading: Promise<Result> | undefined): Promise<void> {
    try {
      let result = await reading;
      while (result?.done !== true) result = await this.#read();
    } catch {
      // Its next reader is told.
    }
  }

  async #read(): Promise<Result> {
    try {
      for (;;) {
        try {
          const result: Result = await this.#parts.next();
          this.#loss = undefined;
          if (result.done === true) this.#end();
          return result;
        } catch (error) {
          this.#move = this.#follow(error);
          await this.#move;
          this.#move = undefined;
        }
      }
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  /** Follows the answer in the session after the one that was lost. */
  async #follow(error: unknown): Promise<void> {
    if (!isProtocolError(error)) throw error;
    // The server of the next session does not know the answer.
    if (error.code === 'unknown_reply' && this.#loss !== undefined) throw this.#loss;
    if (!LOST.has(error.code)) throw error;
    const { keptId, position } = this.#reply;
    if (keptId === undefined) throw disconnectOf(error);
    this.#loss = error;
    try {
      this.#use = await this.#use.next(error);
    } catch (failure) {
      throw disconnectOf(failure);
    }
    this.#reply = this.#use.session.follow(keptId, { after: position });
    this.#parts = this.#reply[Symbol.asyncIterator]();
    // It was left meanwhile.
    if (this.#leave === undefined) drop(this.#reply);
  }

  #end(): void {
    this.#hasEnded = true;
    this.#release();
  }

  #release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#use.release();
    this.#onOver();
  }
}

function drop(reply: ReplyStream | FollowedReply): void {
  if ('unfollow' in reply) reply.unfollow();
  else reply.cancel();
}
