/** What was said, and how it is said again, as chat APIs want it. */

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

export function createTurn(question: string): Turn {
  return { question, answer: '', state: 'waiting', problem: '' };
}

/** Everything said so far, as chat APIs want it. Unfinished answers go as far as they came. */
export function messagesOf(turns: readonly Turn[]): ChatMessage[] {
  return turns.flatMap(({ question, answer }): ChatMessage[] => [
    { role: 'user', content: question },
    ...(answer === '' ? [] : [{ role: 'assistant' as const, content: answer }]),
  ]);
}
