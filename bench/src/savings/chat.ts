import { readNovel } from '../context/texts.js';
import type { ChatMessage } from '../conversation.js';
import type { ChatTurn } from '../gateway/turns.js';

const QUESTION_WORDS = 12;
const ANSWER_WORDS = 60;

/**
 * A chat about a novel: questions of 12 words and answers of 60, none of which repeats another, and each request with all
 * messages before it, as chat APIs want it.
 */
export function chatOf(turns: number): ChatTurn[] {
  const words = readNovel().split(/\s+/);
  let at = 0;
  const next = (count: number) => {
    at += count;
    if (at > words.length) throw new Error('the novel is too short');
    return words.slice(at - count, at).join(' ');
  };
  const messages: ChatMessage[] = [{ role: 'system', content: 'You are a helpful assistant.' }];
  return Array.from({ length: turns }, () => {
    messages.push({ role: 'user', content: next(QUESTION_WORDS) });
    const request = JSON.stringify({ model: 'gpt-4o', messages, stream: true });
    const answer = next(ANSWER_WORDS);
    messages.push({ role: 'assistant', content: answer });
    return { request, answer };
  });
}
