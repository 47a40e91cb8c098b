import {
  assertOptions,
  atOnce,
  type OptionKinds,
  ProtocolError,
  SELF,
  workAsTheyAre,
} from '@parlance/protocol/client';
import type { ChatInit, ChatTransport, UIMessage } from 'ai';

/** As much of a chat as is used here. */
export interface KeptChat {
  readonly id: string;
}

/** The options of each chat beside its ID, its transport and its messages: `onFinish`, `onError`, `onToolCall` and others. */
export type KeptChatInit<Message extends UIMessage> = Omit<
  ChatInit<Message>,
  'id' | 'transport' | 'messages'
>;

export interface SessionChatsOptions<Kept extends KeptChat, Message extends UIMessage = UIMessage> {
  /** The class `Chat` of `@ai-sdk/react`, `@ai-sdk/vue`, `@ai-sdk/svelte` or `@ai-sdk/angular`. */
  readonly Chat: new (
    init: ChatInit<Message>,
  ) => Kept;
  /** The options of each chat, or a function of its ID that returns them. @default none */
  readonly init?: KeptChatInit<Message> | ((id: string) => KeptChatInit<Message>) | undefined;
  /** Chats that are kept though no component shows them, and that write no answer. @default 32 */
  readonly maxChats?: number | undefined;
}

const KINDS: OptionKinds<SessionChatsOptions<KeptChat>> = {
  Chat: 'class',
  init: ['object', 'function'],
  maxChats: 'number',
};

const MAX_CHATS = 32;

/**
 * The chats of a page, one for each ID, for as long as the page lives. A component that shows one may go and come again: that
 * leaves its answer, and only `stop()` stops it.
 *
 *     const chats = sessionChats(transport, { Chat });
 *     const { messages, sendMessage, stop } = useChat({ chat: chats.get(id), resume: true });
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function sessionChats<Kept extends KeptChat, Message extends UIMessage = UIMessage>(
  transport: ChatTransport<Message>,
  options: SessionChatsOptions<Kept, Message>,
): SessionChats<Kept, Message> {
  return new SessionChats(transport, options);
}

/** The chats of a session, as {@link sessionChats} returns them. */
export class SessionChats<Kept extends KeptChat, Message extends UIMessage = UIMessage> {
  readonly [SELF] = this;
  readonly #transport: ChatTransport<Message>;
  readonly #options: SessionChatsOptions<Kept, Message>;
  readonly #maxChats: number;
  /** The one that was asked for last comes last. */
  readonly #kept = new Map<string, Kept>();
  /** All that a component, or an answer that is being read, still holds. */
  readonly #alive = new Map<string, WeakRef<Kept>>();

  constructor(transport: ChatTransport<Message>, options: SessionChatsOptions<Kept, Message>) {
    // Without a compiler, the class is easily forgotten.
    if (typeof (options as Partial<typeof options> | undefined)?.Chat !== 'function') throw noChat();
    assertOptions<object>(options, KINDS);
    const { maxChats = MAX_CHATS } = options;
    if (!(Number.isSafeInteger(maxChats) && maxChats > 0))
      throw new ProtocolError('invalid_option', 'maxChats must be a positive whole number');
    this.#transport = transport;
    this.#options = options;
    this.#maxChats = maxChats;
  }

  /**
   * The chat with this ID. On a server, where all users share what a module keeps, it is another one at each call.
   *
   * @param id 1 to 123 bytes of UTF-8.
   * @param messages those of a chat that this call creates, such as the stored ones. @default none
   * @throws {ProtocolError} `invalid_argument` if `init` or `Chat` returns a promise; what `init` and the class `Chat` throw.
   */
  get(id: string, messages?: Message[]): Kept {
    if (typeof window === 'undefined') return this.#create(id, messages);
    const present = this.#alive.get(id)?.deref();
    const chat = present ?? this.#create(id, messages);
    if (present === undefined) {
      for (const [gone, left] of this.#alive) if (left.deref() === undefined) this.#alive.delete(gone);
      this.#alive.set(id, new WeakRef(chat));
    }
    this.#kept.delete(id);
    this.#kept.set(id, chat);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= this.#maxChats) break;
      this.#kept.delete(oldest);
    }
    return chat;
  }

  /** Forgets a chat; its answer, if it has one, continues. The next `get` creates another. @returns whether there was one. */
  delete(id: string): boolean {
    this.#kept.delete(id);
    const chat = this.#alive.get(id)?.deref();
    this.#alive.delete(id);
    return chat !== undefined;
  }

  /** Forgets all chats, for example when the user signs out. */
  clear(): void {
    this.#kept.clear();
    this.#alive.clear();
  }

  #create(id: string, messages: Message[] | undefined): Kept {
    const { Chat, init = {} } = this.#options;
    const given = typeof init === 'function' ? atOnce(init(id), 'init') : init;
    const chat = new Chat({
      ...given,
      id,
      transport: this.#transport,
      ...(messages !== undefined && { messages }),
    });
    return atOnce(chat, 'Chat');
  }
}

function noChat(): ProtocolError {
  return new ProtocolError(
    'invalid_option',
    "sessionChats: the class of your chats is missing: sessionChats(transport, { Chat }), with import { Chat } from '@ai-sdk/react', or from the package of another framework",
  );
}

workAsTheyAre(SessionChats);
