import { collectReadmes } from '../codecs/prose.js';
import { type ChatMessage, readConversation } from '../conversation.js';

/** The requests of chat API clients: each contains the whole history. */
export interface History {
  readonly name: string;
  /** Request bodies, in order. */
  readonly requests: readonly string[];
  /** Interleaved conversations. */
  readonly conversations: 1 | 2;
  /** How many times smaller than JSON the requests should get, if a file was given. */
  readonly factor: number;
}

const TURNS = 40;
const WINDOW = 12;
/** UTF-16 units of a generated message. */
const MESSAGE_LENGTH = 2000;
/** Shares no factor with any number of READMEs. */
const STRIDE = 1_000_003;

/** @param file a conversation. @default one made of the READMEs of installed packages */
export function createHistories(file: string | undefined): History[] {
  const messages = file === undefined ? writeConversation() : readConversation(file);
  const turns = Math.min(TURNS, Math.floor(messages.length / 2));
  // A second conversation of the same length: the same messages in reverse order.
  const others = messages.map(({ role }, i) => ({ role, content: messages.at(-1 - i)?.content ?? '' }));
  const of = (all: readonly ChatMessage[], turn: number) => all.slice(0, 2 * turn);
  const each = (request: (turn: number) => string[]) =>
    Array.from({ length: turns }, (_, i) => request(i + 1)).flat();
  return [
    {
      name: 'appended',
      conversations: 1,
      factor: 48,
      requests: each((turn) => [requestOf(of(messages, turn))]),
    },
    {
      name: 'edited in the middle',
      conversations: 1,
      factor: 48,
      requests: each((turn) => [requestOf(edited(of(messages, turn), turn))]),
    },
    {
      name: 'two interleaved',
      conversations: 2,
      factor: 48,
      requests: each((turn) => [requestOf(of(messages, turn)), requestOf(of(others, turn))]),
    },
    {
      name: `last ${WINDOW} messages`,
      conversations: 1,
      factor: 14,
      requests: each((turn) => [requestOf(of(messages, turn).slice(-WINDOW))]),
    },
  ];
}

/** The body of a request to a chat API. */
export function requestOf(messages: readonly ChatMessage[]): string {
  return JSON.stringify({
    model: 'gpt-4o-2024-08-06',
    messages,
    temperature: 0.7,
    top_p: 1,
    stream: true,
    max_tokens: 1024,
    user: 'user_8f3a2c',
  });
}

/** Adds another sentence in the middle with every turn. */
export function edited(messages: readonly ChatMessage[], turn: number): ChatMessage[] {
  const at = messages.length >> 1;
  return messages.map((message, i) =>
    i === at
      ? { ...message, content: `${message.content} On second thought, take number ${turn}.` }
      : message,
  );
}

/** Messages that are passages of READMEs, with their lists and code, each from another package. */
function writeConversation(): ChatMessage[] {
  const readmes = collectReadmes().filter((text) => text.length > 2 * MESSAGE_LENGTH);
  let next = 0;
  const write = (): string => {
    const readme = readmes[(next * STRIDE) % readmes.length] as string;
    // The next passage of this README, once every README had its turn.
    const start = (Math.floor(next++ / readmes.length) * MESSAGE_LENGTH) % (readme.length - MESSAGE_LENGTH);
    return readme.slice(start, start + MESSAGE_LENGTH);
  };
  return [
    { role: 'system', content: write() },
    ...Array.from({ length: TURNS }).flatMap(() => [
      { role: 'user', content: write() },
      { role: 'assistant', content: write() },
    ]),
  ];
}
