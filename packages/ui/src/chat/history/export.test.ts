import { expect, it } from 'vitest';
import { createTurn } from '../conversation.js';
import { jsonOf, markdownOf } from './export.js';

/** Chats as files. */

const first = createTurn('What is *this*?');
const second = createTurn('And?', first.id);
const version = createTurn('And now?', first.id);
Object.assign(first, { answer: 'A **test**.', end: 'stop', state: 'done' });
Object.assign(version, { refusal: 'No.', thinking: 'Hm', state: 'done' });
const chat = {
  id: 'chat',
  title: 'A title',
  isNamed: true,
  createdAt: 0,
  changedAt: 0,
  head: version.id,
};
const exported = { chat, turns: [first, second, version], shown: [first.id, version.id] };

it('Markdown has what is shown of a chat', () => {
  expect(markdownOf(exported)).toBe(
    '# A title\n\n## You\n\nWhat is *this*?\n\n## Answer\n\nA **test**.\n\n## You\n\nAnd now?\n\n## Answer\n\nNo.\n',
  );
});

it('JSON has all versions of its turns', () => {
  const { turns, ...rest } = JSON.parse(jsonOf(exported));
  expect(rest).toEqual({ id: 'chat', title: 'A title', created: '1970-01-01T00:00:00.000Z' });
  expect(turns).toHaveLength(3);
  expect(turns[0]).toEqual({
    id: first.id,
    parent: null,
    asked: new Date(first.asked).toISOString(),
    question: 'What is *this*?',
    answer: 'A **test**.',
    end: 'stop',
    state: 'done',
  });
  expect(turns[1]).toMatchObject({ parent: first.id, answer: '', state: 'waiting', end: null });
  expect(turns[2]).toMatchObject({ parent: first.id, refusal: 'No.', thinking: 'Hm' });
});
