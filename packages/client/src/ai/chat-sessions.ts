import type { Session } from '@parlance/protocol';
import { ProtocolError } from '@parlance/protocol/client';
import { type ClientSession, connect } from '../index.js';
import type { ChatConnection, ChatSession, ChatSessionSource } from './options.js';

interface Opening {
  readonly session: Promise<ChatSession>;
  /** It has failed, or the session is closed. */
  isClosed: () => boolean;
}

/** The session of a transport, in whichever way the application has given it. */
export class ChatSessions {
  readonly #source: ChatSessionSource;
  /** The present session, or the attempt to open one. */
  #present: Opening | undefined;

  constructor(source: ChatSessionSource) {
    this.#source = source;
    // Requests reject with it; a page that has not asked yet need not handle it.
    if (source instanceof Promise) source.catch(() => {});
  }

  /** @throws {ProtocolError} `unsupported` for a connection without a page; what opening the session throws. */
  async get(): Promise<ChatSession> {
    const source = this.#source;
    if (typeof source !== 'function' && !isConnection(source)) return await source;
    if (this.#present === undefined || this.#present.isClosed()) this.#present = opening(source);
    return await this.#present.session;
  }

  /** Closes the session that was opened for a connection. The next request opens another one. */
  async close(): Promise<void> {
    const present = this.#present;
    if (present === undefined || typeof this.#source === 'function') return;
    this.#present = undefined;
    const session = await present.session.catch(() => undefined);
    await (session as ClientSession | undefined)?.close();
  }
}

function opening(source: ChatConnection | (() => ChatSession | Promise<ChatSession>)): Opening {
  const open = async () => (typeof source === 'function' ? await source() : await openIn(source));
  const present: Opening = { session: open(), isClosed: () => false };
  present.session.then(
    (session) => {
      present.isClosed = () => (session as Partial<Session>).state === 'closed';
    },
    () => {
      present.isClosed = () => true;
    },
  );
  return present;
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
