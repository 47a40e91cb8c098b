/** What was said, and the request that says all of it again, as chat APIs want it. */

export type TurnState =
  /** Asked, nothing has come yet. */
  | 'waiting'
  | 'streaming'
  | 'done'
  /** The person pressed Stop. */
  | 'stopped'
  /** The session ended before the answer did. */
  | 'interrupted'
  /** The request could not be sent, or was answered with an error. */
  | 'failed';

export interface Turn {
  readonly question: string;
  answer: string;
  state: TurnState;
  /** What went wrong, where something did. */
  problem: string;
}

export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

/** A label for whoever answers; the embedded responder has no model. */
const MODEL = 'gpt-4o';

export function createTurn(question: string): Turn {
  return { question, answer: '', state: 'waiting', problem: '' };
}

/** The JSON text of a chat request with everything said so far. Unfinished answers go as far as they came. */
export function chatRequest(turns: readonly Turn[]): string {
  const messages = turns.flatMap(({ question, answer }): ChatMessage[] => [
    { role: 'user', content: question },
    ...(answer === '' ? [] : [{ role: 'assistant' as const, content: answer }]),
  ]);
  return JSON.stringify({ model: MODEL, messages, stream: true });
}
