export type TurnState =
  /** Sent, without any answer yet. */
  | 'waiting'
  | 'streaming'
  | 'done'
  /** The user pressed Stop. */
  | 'stopped'
  /** The session ended before the answer did. */
  | 'interrupted'
  /** The request could not be sent, or the answer is an error. */
  | 'failed';

export interface Turn {
  readonly question: string;
  answer: string;
  state: TurnState;
  /** Error message; empty if there is none. */
  problem: string;
}

export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

export function createTurn(question: string): Turn {
  return { question, answer: '', state: 'waiting', problem: '' };
}

/** The conversation so far as the messages of a chat request. Includes unfinished answers. */
export function messagesOf(turns: readonly Turn[]): ChatMessage[] {
  return turns.flatMap(({ question, answer }): ChatMessage[] => [
    { role: 'user', content: question },
    ...(answer === '' ? [] : [{ role: 'assistant' as const, content: answer }]),
  ]);
}
