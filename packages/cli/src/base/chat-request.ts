/** A message of a chat request, as models and gateways expect it. */
export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

export function chatRequest(model: string, messages: readonly ChatMessage[]): object {
  return { model, messages };
}

/** The words in a part of the reply to a chat request: the content of a completion or a chunk; else the part itself. */
export function wordsOf(part: string): string {
  if (part === END_OF_STREAM) return '';
  let completion: unknown;
  try {
    completion = JSON.parse(part);
  } catch {
    return part;
  }
  const choices = (completion as { choices?: unknown } | null)?.choices;
  if (!Array.isArray(choices)) return part;
  const choice = choices[0] as { delta?: { content?: unknown }; message?: { content?: unknown } } | undefined;
  const content = choice?.delta?.content ?? choice?.message?.content;
  return typeof content === 'string' ? content : '';
}

/** The last event of a streamed completion. */
const END_OF_STREAM = '[DONE]';
