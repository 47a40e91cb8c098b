import type { Logger, Session } from '@parlance/protocol';
import { ProtocolError } from '@parlance/protocol/client';
import { isBack, isThere } from '../frameworks/is-back.js';
import { warnOnce } from '../frameworks/warn-once.js';
import { type ClientSession, connect } from '../index.js';
import type { ChatConnection, ChatSession, ChatSessionSource } from './options.js';

/** A session while a chat asks or reads something in it. */
export interface SessionUse {
  readonly session: ChatSession;
  /** Ends the use. A second call has no effect. */
  release(): void;
  /** Waits while the session has no connection. */
  settled(): Promise<void>;
  /**
   * Ends the use, and begins one of the session after the one that ended with `error`. Waits for that session.
   *
   * @throws `error` if none follows; what opening the session throws.
   */
  next(error: Error): Promise<SessionUse>;
}

/** The session of a transport, in whichever way the application has given it. */
export class ChatSessions {
  readonly #source: ChatSessionSource;
  readonly #logger: Logger | undefined;
  /** The present session, or the attempt to open one. */
  #present: Opening | undefined;

  /** @param logger gets a warning if a session cannot be opened. */
  constructor(source: ChatSessionSource, logger?: Logger) {
    this.#source = source;
    this.#logger = logger;
    // Requests reject with it; a page that has not asked yet need not handle it.
    if (source instanceof Promise) source.catch(() => {});
  }

  /** @throws {ProtocolError} `unsupported` for a connection without a page; what opening the session throws. */
  async use(): Promise<SessionUse> {
    const source = this.#source;
    if (!opens(source)) this.#present ??= new Opening(source);
    else if (this.#present === undefined || this.#present.isClosed)
      this.#present = new Opening(opened(source));
    return await this.#use(this.#present);
  }

  /**
   * Closes the session that was opened for a connection when nothing uses it any more, or at once. The next request opens
   * another one.
   */
  async close(atOnce: boolean): Promise<void> {
    const present = this.#present;
    if (present === undefined || typeof this.#source === 'function' || !opens(this.#source)) return;
    this.#present = undefined;
    if (!atOnce) await present.idle();
    const session = await present.session.catch(() => undefined);
    await (session as ClientSession | undefined)?.close();
  }

  async #use(opening: Opening): Promise<SessionUse> {
    const release = opening.hold();
    try {
      const session = await opening.session;
      const next = async (error: Error): Promise<SessionUse> => {
        if (isWhole(session) && (await isBack(session, error))) return await this.#use(opening);
        const isLost = 'code' in error && error.code === 'session_lost';
        // A session that the application has closed is not opened again for what was read in it.
        if (!isLost || opening !== this.#present || !opens(this.#source)) throw error;
        return await this.use();
      };
      return {
        session,
        release,
        settled: async () => {
          if (isWhole(session)) await isThere(session);
        },
        next: (error) => next(error).finally(release),
      };
    } catch (error) {
      release();
      warnOnce(error, this.#logger);
      throw error;
    }
  }
}

/** One session, or the attempt to open it, with those who use it. */
class Opening {
  readonly session: Promise<ChatSession>;
  #hasFailed = false;
  #opened: Partial<Session> | undefined;
  #users = 0;
  #onIdle = (): void => {};

  constructor(session: ChatSession | Promise<ChatSession>) {
    this.session = Promise.resolve(session);
    this.session.then(
      (opened) => {
        this.#opened = opened;
      },
      () => {
        this.#hasFailed = true;
      },
    );
  }

  /** It could not be opened, or is closed. */
  get isClosed(): boolean {
    return this.#hasFailed || this.#opened?.state === 'closed';
  }

  /** @returns a function that lets go of it. */
  hold(): () => void {
    let isHeld = true;
    this.#users++;
    return () => {
      if (isHeld && --this.#users === 0) this.#onIdle();
      isHeld = false;
    };
  }

  /** Resolves when no chat uses it. */
  async idle(): Promise<void> {
    if (this.#users === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }
}

/** An application may give as much of a session as a chat uses. */
function isWhole(session: ChatSession): session is Session {
  return 'state' in session && 'on' in session;
}

async function opened(
  source: ChatConnection | (() => ChatSession | Promise<ChatSession>),
): Promise<ChatSession> {
  if (typeof source === 'function') return await source();
  const { url, store, ...options } = source;
  if (typeof window === 'undefined') {
    throw new ProtocolError(
      'unsupported',
      'there is no window: a chat opens its session in a page; on a server, give it a session',
    );
  }
  return await connect(typeof url === 'function' ? url() : url, {
    ...options,
    ...(store !== undefined && { store: typeof store === 'function' ? store() : store }),
  });
}

/** Whether there may be one session after the other. */
function opens(
  source: ChatSessionSource,
): source is ChatConnection | (() => ChatSession | Promise<ChatSession>) {
  return typeof source === 'function' || ('url' in source && !('stream' in source));
}
