import { randomName } from '../shared/profile.js';
import type { Problem } from './problems.js';
import { NO_TRAFFIC, type TurnTraffic } from './traffic.js';

export type TurnState =
  /** Sent, without any answer yet. */
  | 'waiting'
  | 'streaming'
  | 'done'
  /** A page of this profile pressed Stop. */
  | 'stopped'
  /** The session ended before the answer did, and the server has not kept it. */
  | 'interrupted'
  /** The request could not be sent, or the answer is an error. */
  | 'failed';

/** How to go on with an answer that is not complete. */
export interface TurnReply {
  /** The name under which the server keeps the answer, or its ID. */
  readonly name: string;
  /** The number of the part that was read last. */
  position: number;
}

export interface Turn {
  /** `undefined` if another tab asked. */
  readonly question: string | undefined;
  answer: string;
  state: TurnState;
  /** Why it failed. */
  problem: Problem | undefined;
  /** All attempts at an answer. */
  traffic: TurnTraffic;
  /** `undefined` if there is nothing more to read. */
  reply: TurnReply | undefined;
}

export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

export function createTurn(question: string): Turn {
  return {
    question,
    answer: '',
    state: 'waiting',
    problem: undefined,
    traffic: NO_TRAFFIC,
    reply: { name: `chat-${randomName()}`, position: 0 },
  };
}

/** An answer that another tab has asked for. */
export function createForeignTurn(name: string): Turn {
  return { ...createTurn(''), question: undefined, reply: { name, position: 0 } };
}

/** The conversation so far as the messages of a chat request. Includes unfinished answers. */
export function messagesOf(turns: readonly Turn[]): ChatMessage[] {
  return turns.flatMap(({ question, answer }): ChatMessage[] => [
    ...(question === undefined ? [] : [{ role: 'user' as const, content: question }]),
    ...(answer === '' ? [] : [{ role: 'assistant' as const, content: answer }]),
  ]);
}
