import { collectReadmes } from '../codecs/prose.js';

/** UTF-16 units of a question with its answer. */
const TURN_LENGTH = 2_400;

/**
 * A chat that goes on for as long as READMEs of installed packages last, which is more than a thousand turns.
 *
 * @returns the request of a turn, counted from 1: JSON with the whole history.
 */
export function createGrowingHistory(): (turn: number) => string {
  const text = collectReadmes().join('\n');
  const messages: { role: string; content: string }[] = [];
  let at = 0;
  const next = (length: number) => {
    if (at + length > text.length) throw new Error('the installed READMEs are too short for so many turns');
    at += length;
    return text.slice(at - length, at);
  };
  return (turn) => {
    while (messages.length < 2 * turn) {
      messages.push({ role: 'user', content: next(TURN_LENGTH / 4) });
      messages.push({ role: 'assistant', content: next((TURN_LENGTH * 3) / 4) });
    }
    return JSON.stringify({ model: 'gpt-4o', messages: messages.slice(0, 2 * turn), stream: true });
  };
}
