import { Chat as KeptChat, type UIMessage, useChat } from '@ai-sdk/react';
import { connect } from '@parlance/client';
import { SessionChatTransport, sessionChats } from '@parlance/client/ai';
import * as ai from 'ai';
import {
  type ChatTransport,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from 'ai';
import { createElement, StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';

/** A page with `useChat`, which its test looks at and acts on. */

const query = new URLSearchParams(location.search);
const id = query.get('chat') ?? 'chat';
const user = query.get('user') ?? 'anna';
const STORED = `messages of ${id}`;

// Version 6 of the AI SDK has none.
const { WebSocketChatTransport } = ai as unknown as {
  WebSocketChatTransport: new (options: object) => ChatTransport<UIMessage>;
};

const session = connect(query.get('server') ?? '', {
  token: user,
  ...(query.has('store') && { store: sessionStorage }),
});
const additions = { body: { fixed: 1 }, headers: { 'x-custom': 'of the transport' } };
const transport = query.has('http')
  ? new DefaultChatTransport({ api: query.get('http') ?? '' })
  : query.has('socket')
    ? new WebSocketChatTransport({ url: query.get('socket') ?? '', params: { token: user }, ...additions })
    : new SessionChatTransport(session, additions);

type Chat = ReturnType<typeof useChat>;

interface TestChat {
  readonly session: typeof session;
  /** `undefined` until the page is rendered. */
  chat: Chat | undefined;
  readonly data: unknown[];
  readonly ended: object[];
  /** Shows the page of the chat, or another page. */
  show(isShown: boolean): void;
  /** How often a tool of the page was called. */
  toolCalls: number;
  readonly state: {
    readonly status: string;
    readonly error: object | undefined;
    readonly messages: UIMessage[];
    /** The text of the last message, if that is the assistant's. */
    readonly text: string;
    readonly data: unknown[];
    readonly ended: object[];
    readonly toolCalls: number;
  };
}

declare global {
  interface Window {
    chatTest: TestChat;
  }
}

const stored: UIMessage[] = JSON.parse(sessionStorage.getItem(STORED) ?? '[]');

const callbacks: Pick<
  ConstructorParameters<typeof KeptChat>[0],
  'onToolCall' | 'sendAutomaticallyWhen' | 'onData' | 'onFinish'
> = {
  onToolCall({ toolCall }) {
    if (toolCall.toolName !== 'location') return;
    window.chatTest.toolCalls++;
    const output = { tool: 'location', toolCallId: toolCall.toolCallId, output: 'Bergen' };
    void window.chatTest.chat?.addToolOutput(output);
  },
  sendAutomaticallyWhen: (options) =>
    lastAssistantMessageIsCompleteWithToolCalls(options) ||
    lastAssistantMessageIsCompleteWithApprovalResponses(options),
  onData: (part) => window.chatTest.data.push(part),
  onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
    window.chatTest.ended.push({ isAbort, isDisconnect, isError, finishReason }),
};

// The package for React brings a copy of `ai` of its own, whose types are the same by another name.
const chats =
  query.has('kept') &&
  sessionChats<KeptChat<UIMessage>>(transport as never, {
    Chat: KeptChat as never,
    init: callbacks as never,
  });

function Page() {
  const resume = query.has('resume');
  const chat = useChat(
    chats
      ? { chat: chats.get(id, stored as never), resume }
      : { id, transport, messages: stored, resume, ...callbacks },
  );
  window.chatTest.chat = chat;
  // As an application with a store does: of an answer under way, it may know a part.
  const text = JSON.stringify(chat.messages);
  // Browsers store 5 MiB.
  const mayStore = text.length < 1_000_000 && (query.has('partial') || chat.status !== 'streaming');
  if (mayStore) sessionStorage.setItem(STORED, text);
  return null;
}

window.chatTest = {
  session,
  chat: undefined,
  show: () => {},
  data: [],
  ended: [],
  toolCalls: 0,
  get state() {
    const { chat, data, ended, toolCalls } = this;
    const { status = 'none', messages = [] } = chat ?? {};
    const last = messages.at(-1);
    const parts = last?.role === 'assistant' ? last.parts : [];
    const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const error = chat?.error && { ...chat.error, name: chat.error.name, message: chat.error.message };
    return { status, error, messages, text, data, ended, toolCalls };
  },
};

/** An application of two pages. */
function Router() {
  const [isShown, show] = useState(true);
  window.chatTest.show = (value) => {
    window.chatTest.chat = undefined;
    show(value);
  };
  return isShown ? createElement(Page) : null;
}

createRoot(document.body).render(createElement(StrictMode, null, createElement(Router)));
