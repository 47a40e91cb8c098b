import type { Session } from '@parlance/protocol';
import { ProtocolError } from '@parlance/protocol/client';
import { type ClientSession, connect } from '../index.js';
import type { ChatConnection, ChatSession, ChatSessionSource } from './options.js';

/** The session of a transport, in whichever way the application has given it. */
export class ChatSessions {
  readonly #source: ChatSessionSource;
  /** The present session, or the attempt to open one. */
  #present: Promise<ChatSession> | undefined;
  #isClosed = (): boolean => false;

  constructor(source: ChatSessionSource) {
    this.#source = source;
    // Requests reject with it; a page that has not asked yet need not handle it.
    if (source instanceof Promise) source.catch(() => {});
  }

  /** @throws {ProtocolError} `unsupported` for a connection without a page; what opening the session throws. */
  async get(): Promise<ChatSession> {
    const source = this.#source;
    if (typeof source !== 'function' && !isConnection(source)) return await source;
    if (this.#present === undefined || this.#isClosed()) this.#present = this.#open(source);
    return await this.#present;
  }

  /** Closes the session that was opened for a connection. The next request opens another one. */
  async close(): Promise<void> {
    const present = this.#present;
    if (present === undefined || typeof this.#source === 'function') return;
    this.#present = undefined;
    const session = await present.catch(() => undefined);
    await (session as ClientSession | undefined)?.close();
  }

  async #open(source: ChatConnection | (() => ChatSession | Promise<ChatSession>)): Promise<ChatSession> {
    this.#isClosed = () => false;
    try {
      const session = typeof source === 'function' ? await source() : await openIn(source);
      this.#isClosed = () => (session as Partial<Session>).state === 'closed';
      return session;
    } catch (error) {
      this.#isClosed = () => true;
      throw error;
    }
  }
}

async function openIn({ url, store, ...options }: ChatConnection): Promise<ChatSession> {
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

function isConnection(source: ChatSessionSource): source is ChatConnection {
  return 'url' in source && !('stream' in source);
}
