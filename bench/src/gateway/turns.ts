import { createProse } from '../codecs/messages.js';
import { type ChatMessage, readConversation } from '../conversation.js';

/** One turn of a long chat, as an API receives it. */
export interface ChatTurn {
  /** The whole history as JSON text, for a streamed answer. */
  readonly request: string;
  /** The model's answer. */
  readonly answer: string;
}

/**
 * The first `count` turns of a conversation, each request with all messages before it.
 *
 * @param file JSON `{ messages: [{ role, content }] }`. @default prose from installed packages
 */
export function chatTurns(count: number, file: string | undefined): ChatTurn[] {
  const messages = file === undefined ? writeConversation(count) : readConversation(file);
  const turns: ChatTurn[] = [];
  for (const [index, { role, content }] of messages.entries()) {
    if (role !== 'assistant' || turns.length === count) continue;
    const request = { model: 'gpt-4o', messages: messages.slice(0, index), stream: true };
    turns.push({ request: JSON.stringify(request), answer: content });
  }
  return turns;
}

function writeConversation(count: number): ChatMessage[] {
  const prose = createProse();
  return [
    { role: 'system', content: 'You explain software to people who are new to it.' },
    ...Array.from({ length: count }).flatMap(() => [
      { role: 'user', content: `What does this mean? ${prose()}` },
      { role: 'assistant', content: `${prose()}\n\n${prose()}` },
    ]),
  ];
}
