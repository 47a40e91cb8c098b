import { useCallback, useSyncExternalStore } from 'react';
import { isBack } from '../frameworks/is-back.js';
import {
  type Body,
  type FollowedReply,
  type Message,
  ProtocolError,
  type RequestOptions,
  type Session,
} from '../index.js';
import { type Failure, failureOf, NO_FAILURE } from './failure.js';
import { useView, View } from './view.js';

/**
 * `idle`: nothing was asked. `waiting`: for the first part. `streaming`. `done`: the reply is complete. `stopped`: by this
 * page, or by another reader of a kept reply. `failed`: `code` says why.
 */
export type ReplyStatus = 'idle' | 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed';

/** A reply as a component sees it. */
export interface ReplyView<Value> extends Failure {
  readonly status: ReplyStatus;
  /** The value of the parts so far. */
  readonly value: Value;
  /** The ID of a reply that the server keeps, for {@link useReply}. */
  readonly keptId: string | undefined;
  /** The number of the last part. */
  readonly position: number;
}

export interface StreamView<Value, Part> extends ReplyView<Value> {
  /** Sends a request, or reads a reply of a contract. A reply that is being read is cancelled. */
  readonly start: {
    (body: Body, options?: RequestOptions): void;
    (reply: Readable<Part>): void;
  };
  /** Cancels the request, which stops its handler. */
  readonly stop: () => void;
}

export interface FollowView<Value> extends ReplyView<Value> {
  /** Stops the handler. Never rejects; if it fails, `code` says why. */
  readonly stop: () => Promise<void>;
}

/** How a component reads the parts of a reply. */
export interface ReadOptions<Value, Part> {
  /** The value before the first part. */
  readonly initial: Value;
  /** The value with one more part. It returns another value, and changes none. */
  readonly read: (value: Value, part: Part) => Value;
}

export interface FollowOptions {
  /** The number of the part after which to begin. @default 0 */
  readonly after?: number | undefined;
}

/** A reply that is read part by part: of `session.stream`, `session.follow` or a contract. */
export interface Readable<Part> extends AsyncIterable<Part> {
  readonly keptId: string | undefined;
  readonly position: number;
  /** Stops the handler. */
  cancel?(): void;
  /** In place of `cancel`: a reply that is followed. */
  unfollow?(): void;
}

/** Text of messages and parts that are text. */
const TEXT: ReadOptions<string, unknown> = {
  initial: '',
  read: (before, part) => before + (typeof part === 'object' ? (part as Message).text : part),
};

/**
 * Asks the other end of a session, and reads the reply part by part. Unmounting the component cancels the request, which
 * stops its handler; a handler that is to continue keeps its reply, and the next component follows it with {@link
 * useReply}.
 */
export function useStream(session: Session | undefined): StreamView<string, unknown>;
export function useStream<Value, Part = Message>(
  session: Session | undefined,
  options: ReadOptions<Value, Part>,
): StreamView<Value, Part>;
export function useStream(
  session: Session | undefined,
  { initial, read }: ReadOptions<unknown, never> = TEXT as ReadOptions<unknown, never>,
): StreamView<unknown, unknown> {
  const view = useView(() => new Asking(initial));
  const state = useSyncExternalStore(view.watch, view.getState, view.getState);
  const start = useCallback(
    (asked: Body | Readable<unknown>, options?: RequestOptions) =>
      view.start(initial, read as Read, () =>
        isReadable(asked) ? asked : openSession(session).stream(asked, options),
      ),
    [view, session, initial, read],
  );
  return { ...state, start, stop: view.stop };
}

/**
 * Follows a reply that the server keeps, in this session and in those that follow it. Unmounting the component does not
 * stop the handler.
 *
 * @param reply its ID or name; `undefined` as long as there is none.
 */
export function useReply(
  session: Session | undefined,
  reply: string | undefined,
  options?: FollowOptions,
): FollowView<string>;
export function useReply<Value>(
  session: Session | undefined,
  reply: string | undefined,
  options: FollowOptions & ReadOptions<Value, Message>,
): FollowView<Value>;
export function useReply(
  session: Session | undefined,
  reply: string | undefined,
  options: FollowOptions & Partial<ReadOptions<unknown, never>> = {},
): FollowView<unknown> {
  const { initial, read } = { ...TEXT, ...options };
  const view = useView(
    () => new Following(session, reply, initial, read as Read, options.after),
    session,
    reply,
  );
  const state = useSyncExternalStore(view.watch, view.getState, view.getState);
  return { ...state, stop: view.stop };
}

type Read = (value: unknown, part: unknown) => unknown;

abstract class Reading extends View<ReplyView<unknown>> {
  #reply: Readable<unknown> | undefined;

  constructor(initial: unknown, position = 0) {
    super({ status: 'idle', value: initial, keptId: undefined, position, ...NO_FAILURE });
  }

  /** Reads a reply to its end. @returns the error of a reply that has failed. */
  protected async read(read: Read, open: () => Readable<unknown>): Promise<{ error: unknown } | undefined> {
    let reply: Readable<unknown> | undefined;
    try {
      reply = open();
      this.#reply = reply;
      for await (const part of reply) {
        if (this.#reply !== reply) return undefined;
        const { keptId, position } = reply;
        this.setSoon({ status: 'streaming', value: read(this.latest.value, part), keptId, position });
      }
      if (this.#reply === reply) this.set({ status: 'done' });
      return undefined;
    } catch (error) {
      const isCurrent = this.#reply === reply;
      if (isCurrent) this.leave();
      return isCurrent ? { error } : undefined;
    }
  }

  /** Reads no more of the present reply. */
  protected leave(): void {
    const reply = this.#reply;
    this.#reply = undefined;
    reply?.cancel?.();
    reply?.unfollow?.();
  }

  protected fail(error: unknown): void {
    const failure = failureOf(error);
    this.set(failure.code === 'cancelled' ? { status: 'stopped' } : { status: 'failed', ...failure });
  }

  protected get isUnderWay(): boolean {
    return this.latest.status === 'waiting' || this.latest.status === 'streaming';
  }
}

class Asking extends Reading {
  start(initial: unknown, read: Read, open: () => Readable<unknown>): void {
    this.work();
    this.leave();
    this.set({ status: 'waiting', value: initial, keptId: undefined, position: 0, ...NO_FAILURE });
    void this.read(read, open).then((failed) => failed && this.fail(failed.error));
  }

  readonly stop = (): void => {
    this.leave();
    if (this.isUnderWay) this.set({ status: 'stopped' });
  };

  protected begin(): void {}

  protected end(): void {
    this.stop();
  }
}

class Following extends Reading {
  readonly #session: Session | undefined;
  readonly #name: string | undefined;
  readonly #read: Read;
  #reply: FollowedReply | undefined;
  /** Counts the times that this view has begun. */
  #turn = 0;

  constructor(
    session: Session | undefined,
    name: string | undefined,
    initial: unknown,
    read: Read,
    after: number | undefined,
  ) {
    super(initial, after);
    this.#session = session;
    this.#name = name;
    this.#read = read;
  }

  readonly stop = async (): Promise<void> => {
    try {
      await this.#reply?.stop();
    } catch (error) {
      this.set(failureOf(error));
    }
  };

  protected begin(): void {
    if (this.#session !== undefined && this.#name !== undefined) void this.#follow(this.#session, this.#name);
  }

  protected end(): void {
    this.#turn++;
    this.leave();
  }

  async #follow(session: Session, name: string): Promise<void> {
    const turn = ++this.#turn;
    this.set({ status: 'waiting', ...NO_FAILURE });
    for (;;) {
      const failed = await this.read(this.#read, () => {
        this.#reply = session.follow(name, { after: this.latest.position });
        return this.#reply;
      });
      if (failed === undefined || turn !== this.#turn) return;
      const goesOn = await isBack(session, failed.error);
      if (turn !== this.#turn) return;
      if (!goesOn) return this.fail(failed.error);
    }
  }
}

function openSession(session: Session | undefined): Session {
  if (session !== undefined) return session;
  throw new ProtocolError('session_closed', 'there is no session yet');
}

function isReadable(value: unknown): value is Readable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
