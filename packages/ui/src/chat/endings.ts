import type { ToolCall, Turn } from './conversation.js';

/** The note below an answer about its end: only facts from the API, the server or the user. */

/** Reasons for an end after which the answer is whole. */
const WHOLE: readonly (string | undefined)[] = ['stop', 'tool_calls', 'function_call'];

/** Whether the end of the answer has come, and nothing has cut it short. */
export function isWhole({ state, end }: Turn): boolean {
  return state === 'done' && WHOLE.includes(end);
}

/** The fate of an answer that is not being received: it may still be `open`. */
export function stageOf(turn: Turn | undefined): 'complete' | 'open' | 'failed' {
  if (turn?.reply !== undefined) return 'open';
  return turn === undefined || turn.state === 'done' || turn.state === 'stopped' ? 'complete' : 'failed';
}

/** An empty text if there is nothing to say. */
export function noteOf(turn: Turn): string {
  switch (turn.state) {
    case 'waiting':
    case 'streaming':
    case 'failed':
      return '';
    case 'stopped':
      return 'You stopped this answer.';
    case 'interrupted':
      return turn.reply === undefined
        ? 'The session was lost before the answer was complete. The server has not kept the rest.'
        : 'The session was lost before the answer was complete. If the server has kept the rest, it follows when the connection is back.';
    case 'elsewhere':
      return 'The rest of this answer arrives in the tab that has asked.';
    case 'done':
      return noteOfEnd(turn);
  }
}

function noteOfEnd({ answer, refusal, calls, end }: Turn): string {
  const isEmpty = answer.trim() === '' && refusal === '' && calls.length === 0;
  const said = [
    ...(refusal === '' ? [] : ['The model has refused to answer.']),
    ...calls.map(describeCall),
    ...(isEmpty ? ['The model has answered with nothing.'] : []),
  ];
  return [...said, ...reasonOf(end)].join(' ');
}

function reasonOf(end: string | undefined): string[] {
  switch (end) {
    case 'stop':
    case 'tool_calls':
    case 'function_call':
      return [];
    case 'length':
      return ['The answer is cut short: it has reached the limit of its length.'];
    case 'content_filter':
      return ['The answer is cut short: a content filter of the API has stopped it.'];
    case undefined:
      return ['The API has not said that the answer is complete.'];
    default:
      return [`The reason that the API gives for the end is “${end}”.`];
  }
}

const MAX_ARGUMENTS = 200;

function describeCall({ name, arguments: given }: ToolCall): string {
  const shown = given.length <= MAX_ARGUMENTS ? given : `${given.slice(0, MAX_ARGUMENTS)}…`;
  return `The model calls the tool ${name}(${shown}), which this page does not have.`;
}
