import type { Body, Message, ReplyStream, RequestOptions, SendOptions } from '@parlance/protocol';
import {
  type CallHooks,
  type Clock,
  contentOf,
  LateReply,
  ownContent,
  type Performance,
  type PerformOptions,
  ProtocolError,
  sizeOf,
  type UserOutbound,
  whenAborted,
} from '@parlance/protocol/client';

/** Bytes of content that may wait for a session; each call counts {@link CALL_SIZE} more. */
export const MAX_WAITING = 4 * 1024 * 1024;
export const CALL_SIZE = 512;
/** Milliseconds that a call may wait, if sessions are kept for less than that without a connection. */
const MIN_WAIT_MS = 30_000;

export interface WaitingOptions {
  /** The outbound half of the present session; throws if nothing can be sent in it. */
  readonly present: () => UserOutbound;
  /** Nothing can be sent now, and another session is to follow. */
  readonly isComing: () => boolean;
  readonly clock: Pick<Clock, 'now' | 'after'>;
  /** For how long the server keeps a session without a connection, in milliseconds. */
  readonly windowMs: () => number;
}

/** The options that bound the wait of a call. */
type Bounds = Pick<RequestOptions, 'signal' | 'timeoutMs'>;

/** The rest of the time of a call, for the session in which it begins. */
type Rest = Pick<RequestOptions, 'timeoutMs'>;

interface Call {
  readonly size: number;
  readonly begin: () => void;
  readonly fail: (error: unknown) => void;
  readonly release: () => void;
}

/**
 * Sends in the present session. Between a session that was lost, or left, and the next one, calls wait for that, in their
 * order; nothing of them is written before, so that none is made twice.
 */
export class WaitingOutbound implements UserOutbound {
  readonly #options: WaitingOptions;
  readonly #calls = new Set<Call>();
  #size = 0;

  constructor(options: WaitingOptions) {
    this.#options = options;
  }

  send(body: Body, options: SendOptions & CallHooks, agent: string | undefined): Promise<void> {
    if (!this.#isComing) return this.#present.send(body, options, agent);
    const content = ownContent(contentOf(body));
    return this.wait(sizeOf(content), options, () =>
      this.#present.send(content, { ...options, isOwned: true }, agent),
    );
  }

  request(body: Body, options: RequestOptions & CallHooks, agent: string | undefined): Promise<Message> {
    if (!this.#isComing) return this.#present.request(body, options, agent);
    const content = ownContent(contentOf(body));
    const kept = keptOptions(options);
    return this.wait(sizeOf(content), options, (rest) =>
      this.#present.request(content, { ...kept, ...rest }, agent),
    );
  }

  stream(body: Body, options: RequestOptions & CallHooks, agent: string | undefined): ReplyStream {
    if (!this.#isComing) return this.#present.stream(body, options, agent);
    const content = ownContent(contentOf(body));
    const kept = keptOptions(options);
    let begun: ReplyStream | undefined;
    const left = new AbortController();
    const wait = () =>
      this.wait(
        sizeOf(content),
        options,
        async (rest) => {
          begun = this.#present.stream(content, { ...kept, ...rest }, agent);
        },
        left.signal,
      );
    return new LateReply(
      wait,
      () => begun as ReplyStream,
      () => {
        left.abort();
        begun?.cancel();
      },
    );
  }

  perform<Result>(send: Performance<Result>, options: PerformOptions): Promise<Result> {
    return this.wait(0, options, () => this.#present.perform(send, options));
  }

  /**
   * Calls `begin` at once, or when the next session is ready.
   *
   * @param size bytes that the call holds meanwhile.
   * @param left aborts if the caller does not want the result any more.
   * @returns what `begin` returns. Rejects with the reason of the signal, `timeout`, `over_budget`, or the error with which
   * the sessions end.
   */
  wait<Result>(
    size: number,
    { signal, timeoutMs = Infinity }: Bounds,
    begin: (rest: Rest) => Promise<Result>,
    left?: AbortSignal,
  ): Promise<Result> {
    if (!this.#isComing) return begin(timeoutMs === Infinity ? {} : { timeoutMs });
    const { clock, windowMs } = this.#options;
    const waitMs = Math.min(timeoutMs, Math.max(MIN_WAIT_MS, windowMs()));
    return new Promise((resolve, reject) => {
      const deadline = clock.now() + timeoutMs;
      const stop = (reason: unknown) => {
        this.#remove(call);
        reject(reason);
      };
      const onAbort = () => stop(signal?.reason);
      const late = () => stop(new ProtocolError('timeout', `no session was ready within ${waitMs} ms`));
      const stopTimer = waitMs === Infinity ? undefined : clock.after(waitMs, late);
      const call: Call = {
        size: CALL_SIZE + size,
        begin: () => {
          const rest = timeoutMs === Infinity ? {} : { timeoutMs: Math.max(1, deadline - clock.now()) };
          // An error that it throws at once is the error of the call as well.
          new Promise<Result>((begun) => begun(begin(rest))).then(resolve, reject);
        },
        fail: reject,
        release: () => {
          stopTimer?.();
          for (const free of listening) free();
        },
      };
      this.#calls.add(call);
      this.#size += call.size;
      const listening = [whenAborted(signal, onAbort), whenAborted(left, () => stop(undefined))];
      if (signal?.aborted) onAbort();
      else if (this.#size > MAX_WAITING)
        stop(new ProtocolError('over_budget', `${MAX_WAITING} bytes at most wait for the next session`));
    });
  }

  /** The next session is ready. */
  ready(): void {
    for (const call of [...this.#calls]) {
      this.#remove(call);
      call.begin();
    }
  }

  /** No session follows. */
  end(error: ProtocolError): void {
    for (const call of [...this.#calls]) {
      this.#remove(call);
      call.fail(error);
    }
  }

  get #present(): UserOutbound {
    return this.#options.present();
  }

  get #isComing(): boolean {
    return this.#options.isComing();
  }

  #remove(call: Call): void {
    if (!this.#calls.delete(call)) return;
    this.#size -= call.size;
    call.release();
  }
}

/** The caller may change the metadata while the call waits. */
export function keptOptions(options: RequestOptions & CallHooks): RequestOptions & CallHooks {
  const { metadata } = options;
  return { ...options, isOwned: true, ...(metadata && { metadata: copyOf(metadata) as typeof metadata }) };
}

/** A value that cannot be copied cannot be sent either, and the coder says so. */
function copyOf(value: unknown): unknown {
  try {
    return structuredClone(value);
  } catch {
    return value;
  }
}
