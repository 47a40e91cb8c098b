/** A chat request as models and gateways take it. */
export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

export function chatRequest(model: string, messages: readonly ChatMessage[]): object {
  return { model, messages };
}
