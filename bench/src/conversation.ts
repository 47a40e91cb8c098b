import { readFileSync } from 'node:fs';

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/** @param file JSON `{ messages: [{ role, content }] }`. */
export function readConversation(file: string): ChatMessage[] {
  const { messages } = JSON.parse(readFileSync(file, 'utf8')) as { messages?: ChatMessage[] };
  if (!Array.isArray(messages)) throw new Error(`${file} has no { "messages": […] }`);
  return messages;
}
