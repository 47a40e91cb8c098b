import { type Message, type Part, ProtocolError, type RequestContext } from '@parlance/protocol';
import { expect, it } from 'vitest';
import { createEmbeddedResponder } from './responder.js';

async function answerTo(text: string, said: readonly string[] = []): Promise<string> {
  const { signal } = new AbortController();
  const before = said.map((part) => ({ text: part }));
  const context = { signal, metadata: {}, ifProcessDies() {}, yielded: before } as never as RequestContext;
  const json = () => {
    if (text.startsWith('{')) return JSON.parse(text);
    throw new ProtocolError('bad_json', 'not JSON');
  };
  let answer = '';
  const parts = createEmbeddedResponder()({ text, json } as Message, context) as AsyncIterable<Part>;
  for await (const part of parts) answer += part;
  return answer;
}

it('answers a question by its words, and a chat by its last message', async () => {
  expect(await answerTo('is this on')).toMatch(/^You said “is this on”: 3 words, the longest/);
  const chat = JSON.stringify({ messages: [{ content: 'one' }, { content: 'two words' }] });
  expect(await answerTo(chat)).toMatch(/^You said “two words”: 2 words, the longest/);
});

it('answers only the beginning of an overlong question', async () => {
  expect(await answerTo('a '.repeat(32 * 1024))).toContain(': 32,768 words, the longest');
  expect(await answerTo('a '.repeat(32 * 1024 + 1))).toContain(': 32,768 words and more, the longest');
});

it('continues behind what a process before has said', async () => {
  const whole = await answerTo('is this on');
  const said = whole.match(/\s*\S+/gu)?.slice(0, 5) ?? [];
  expect(said.join('') + (await answerTo('is this on', said))).toBe(whole);
  expect(await answerTo('is this on', whole.match(/\s*\S+/gu) ?? [])).toBe('');
});
