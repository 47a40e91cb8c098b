import { readFileSync } from 'node:fs';

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  /** Calls of tools, in the form of the chat API. */
  readonly tool_calls?: readonly object[];
  readonly tool_call_id?: string;
}

/** @param file JSON `{ messages: [{ role, content }] }`. */
export function readConversation(file: string): ChatMessage[] {
  const { messages } = JSON.parse(readFileSync(file, 'utf8')) as { messages?: ChatMessage[] };
  if (!Array.isArray(messages)) throw new Error(`${file} has no { "messages": […] }`);
  return messages;
}
