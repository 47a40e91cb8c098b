import {
  AbstractChat,
  type ChatInit,
  type ChatState,
  type ChatStatus,
  type ChatTransport,
  type UIMessage,
} from 'ai';

/** A chat without a framework, on `AbstractChat`, on which the chats of every framework are built. */

class PlainState implements ChatState<UIMessage> {
  status: ChatStatus = 'ready';
  error: Error | undefined;
  messages: UIMessage[];

  constructor(messages: UIMessage[]) {
    this.messages = messages;
  }
  pushMessage = (message: UIMessage) => {
    this.messages = [...this.messages, message];
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index: number, message: UIMessage) => {
    this.messages = this.messages.with(index, structuredClone(message));
  };
  snapshot = <Value>(value: Value): Value => structuredClone(value);
}

/** As the classes `Chat` of frameworks, which take all in one object. */
export class InitChat extends AbstractChat<UIMessage> {
  constructor({ messages = [], ...init }: ChatInit<UIMessage>) {
    super({ ...init, state: new PlainState(messages) });
  }

  get text(): string {
    return (this.lastMessage?.parts ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
  }

  /** The code of the error, if there is one. */
  get code(): unknown {
    return this.error && Object.entries(this.error).find(([name]) => name === 'code')?.[1];
  }
}

export class PlainChat extends InitChat {
  constructor(transport: ChatTransport<UIMessage>, id = 'chat', messages: UIMessage[] = []) {
    super({ id, transport, messages });
  }
}
