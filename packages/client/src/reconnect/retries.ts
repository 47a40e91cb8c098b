import type { Message, RequestOptions, SendOptions, SessionReset } from '@parlance/protocol';
import {
  type CallHooks,
  type Clock,
  type Content,
  ProtocolError,
  sizeOf,
  type UserOutbound,
  whenAborted,
} from '@parlance/protocol/client';
import type { ClientModule } from '../session/module.js';
import { CALL_SIZE, MAX_WAITING } from '../session/waiting.js';
import { RetriedReply } from './retried-reply.js';

/** A call that fails with one of these, and of which nothing is written, has had no effect. */
const UNDONE: ReadonlySet<string> = new Set(['session_lost', 'session_closed', 'draining']);

/** The hooks that a call passes to the session in which it begins. */
interface Attempt extends Required<Omit<CallHooks, 'isOwned'>> {
  /** The rest of the time of a request. */
  readonly timeoutMs: number | undefined;
  readonly onFailed: (error: unknown) => void;
}

type Begin = (outbound: UserOutbound, attempt: Attempt) => void;

interface Call {
  readonly size: number;
  /** Sends it in the present session. */
  readonly begin: Begin;
  readonly fail: (error: unknown) => void;
  /** Clock reading; `Infinity` without a time limit. */
  readonly deadline: number;
  /** Stops its timer, and listens to its signal no more. */
  release: () => void;
  /** How often it has begun. */
  attempts: number;
  /** Its stream in the present session; `undefined` while it waits for one. */
  streamId: number | undefined;
}

/**
 * The calls of a client that have `retryUnsent`, until all of each is written. If a session ends before, they move on to the
 * next one, in the order in which they were made. A written call may have arrived, and is never repeated.
 */
export class Retries implements ClientModule {
  readonly #present: () => UserOutbound;
  readonly #clock: Pick<Clock, 'now' | 'after'>;
  readonly #calls = new Set<Call>();
  #size = 0;
  readonly #ended: () => ProtocolError | undefined;

  /**
   * @param present throws if nothing can be sent now.
   * @param ended why no session follows.
   */
  constructor(
    present: () => UserOutbound,
    clock: Pick<Clock, 'now' | 'after'>,
    ended: () => ProtocolError | undefined,
  ) {
    this.#present = present;
    this.#clock = clock;
    this.#ended = ended;
  }

  send(content: Content, options: SendOptions, agent: string | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin: Begin = (outbound, { timeoutMs: _, onFailed, ...hooks }) =>
        void outbound.send(content, { ...options, ...hooks }, agent).then(resolve, onFailed);
      this.#add(content, options, begin, reject);
    });
  }

  request(content: Content, options: RequestOptions, agent: string | undefined): Promise<Message> {
    return new Promise((resolve, reject) => {
      const begin: Begin = (outbound, { onFailed, ...hooks }) =>
        void outbound.request(content, { ...options, ...hooks }, agent).then(resolve, onFailed);
      this.#add(content, options, begin, reject);
    });
  }

  stream(content: Content, options: RequestOptions, agent: string | undefined): RetriedReply {
    const reply: RetriedReply = new RetriedReply({
      movesOn: (error) => this.#movesOn(call, error),
      onCancelled: () => this.#remove(call),
    });
    const begin: Begin = (outbound, { onFailed: _, ...hooks }) =>
      reply.begin(outbound.stream(content, { ...options, ...hooks }, agent));
    const call = this.#add(content, options, begin, (error) => reply.fail(error));
    return reply;
  }

  ready(): void {
    for (const call of [...this.#calls]) this.#begin(call);
  }

  /** Calls that move on to the next session are not lost. */
  lossOf(reset: SessionReset): SessionReset {
    // One-way messages all have the same stream.
    const moving = new Map<number, number>();
    for (const call of this.#calls) {
      if (call.streamId === undefined) continue;
      moving.set(call.streamId, (moving.get(call.streamId) ?? 0) + 1);
      call.streamId = undefined;
    }
    const notSent = reset.notSent.filter(({ streamId }) => {
      const count = moving.get(streamId) ?? 0;
      if (count > 0) moving.set(streamId, count - 1);
      return count === 0;
    });
    return { ...reset, notSent };
  }

  ended(error: ProtocolError): void {
    for (const call of [...this.#calls]) this.#fail(call, error);
  }

  #add(
    content: Content,
    { signal, timeoutMs = Infinity }: RequestOptions,
    begin: Begin,
    fail: (error: unknown) => void,
  ): Call {
    const { now, after } = this.#clock;
    const deadline = now() + timeoutMs;
    const size = CALL_SIZE + sizeOf(content);
    const call: Call = { size, begin, fail, deadline, release: () => {}, attempts: 0, streamId: undefined };
    this.#calls.add(call);
    this.#size += size;
    const onAbort = (): void => this.#fail(call, signal?.reason);
    const stopListening = whenAborted(signal, onAbort);
    const late = (): void =>
      this.#fail(call, new ProtocolError('timeout', `no reply within ${timeoutMs} ms`));
    const cancelTimer = timeoutMs === Infinity ? undefined : after(timeoutMs, late);
    call.release = () => {
      cancelTimer?.();
      stopListening();
    };
    if (signal?.aborted) onAbort();
    else this.#begin(call);
    if (call.streamId === undefined && this.#calls.has(call) && this.#size > MAX_WAITING) {
      const message = `retryUnsent: ${MAX_WAITING} bytes at most wait for the next session`;
      this.#fail(call, new ProtocolError('over_budget', message));
    }
    return call;
  }

  #begin(call: Call): void {
    const attempt = ++call.attempts;
    const onFailed = (error: unknown): void => {
      if (call.attempts === attempt && !this.#movesOn(call, error)) this.#fail(call, error);
    };
    try {
      call.begin(this.#present(), {
        timeoutMs: call.deadline === Infinity ? undefined : Math.max(1, call.deadline - this.#clock.now()),
        onWritten: () => this.#remove(call),
        onBegun: (streamId) => {
          call.streamId = streamId;
        },
        onFailed,
      });
    } catch (error) {
      onFailed(error);
    }
  }

  /** Whether a call that has failed in its session waits for the next one. */
  #movesOn(call: Call, error: unknown): boolean {
    const isUndone = error instanceof ProtocolError && UNDONE.has(error.code);
    return isUndone && this.#ended() === undefined && this.#calls.has(call);
  }

  #fail(call: Call, error: unknown): void {
    this.#remove(call);
    call.fail(error);
  }

  #remove(call: Call): void {
    if (!this.#calls.delete(call)) return;
    this.#size -= call.size;
    call.release();
  }
}
