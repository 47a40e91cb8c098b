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
  /** Another tab, of which this one is a copy, reads the rest of the answer. */
  | 'elsewhere'
  /** The request could not be sent, or the answer is an error. */
  | 'failed';

/** How to go on with an answer that is not complete. */
export interface TurnReply {
  /** The name under which the server keeps the answer, or its ID. */
  readonly name: string;
  /** The number of the part that was read last. */
  position: number;
}

export interface ToolCall {
  readonly index: number;
  readonly name: string;
  /** JSON, as far as it has arrived. */
  readonly arguments: string;
}

export interface Turn {
  /** `undefined` if another tab asked. */
  readonly question: string | undefined;
  answer: string;
  /** What the model says in place of an answer. */
  refusal: string;
  /** What it says before its answer, if the API shows that. */
  thinking: string;
  /** The tools that it calls, which this page does not have. */
  calls: readonly ToolCall[];
  /** The reason that the API gives for the end, such as `stop` and `length`; `undefined` until it has given one. */
  end: string | undefined;
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
    refusal: '',
    thinking: '',
    calls: [],
    end: undefined,
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
  return turns.flatMap((turn): ChatMessage[] => {
    const { question } = turn;
    const content = wordsOf(turn);
    return [
      ...(question === undefined ? [] : [{ role: 'user' as const, content: question }]),
      ...(content === '' ? [] : [{ role: 'assistant' as const, content }]),
    ];
  });
}

/** The words of the model: its answer, or its refusal. */
export function wordsOf({ answer, refusal }: Turn): string {
  return answer === '' || refusal === '' ? answer + refusal : `${answer}\n\n${refusal}`;
}

/** What a chunk of an answer brings. */
export interface Piece {
  readonly answer: string;
  readonly refusal: string;
  readonly thinking: string;
  readonly calls: readonly ToolCall[];
  readonly end: string | undefined;
}

/** Whether there is anything new to show. */
export function isNews({ answer, refusal, thinking, calls }: Piece): boolean {
  return answer + refusal + thinking !== '' || calls.length > 0;
}

/** Adds a piece to the turn. */
export function take(turn: Turn, { answer, refusal, thinking, calls, end }: Piece): void {
  turn.answer += answer;
  turn.refusal += refusal;
  turn.thinking += thinking;
  for (const call of calls) {
    const before = turn.calls.find(({ index }) => index === call.index);
    const others = turn.calls.filter((each) => each !== before);
    const name = (before?.name ?? '') + call.name;
    turn.calls = [...others, { ...call, name, arguments: (before?.arguments ?? '') + call.arguments }];
  }
  turn.end = end ?? turn.end;
}
