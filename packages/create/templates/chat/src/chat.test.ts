import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAIGateway } from '@parlance/server/openai';
import { createFakeUpstream, createTestServer } from '@parlance/server/testing';
import OpenAI from 'openai';
import { createChat } from './chat.js';

const words = async (chat: OpenAI, onWord: (count: number) => void = () => {}): Promise<string> => {
  const stream = await chat.chat.completions.create({
    model: 'toy',
    messages: [{ role: 'user', content: 'hello' }],
    stream: true,
  });
  let text = '';
  let count = 0;
  for await (const { choices } of stream) {
    text += choices[0]?.delta.content ?? '';
    onWord(++count);
  }
  return text;
};

test('an answer is whole, although the connection is cut', async () => {
  const upstream = createFakeUpstream();
  const onRequest = createOpenAIGateway(upstream.options);
  const { connect, network, close } = await createTestServer({ onRequest, time: 'real' });
  try {
    const { fetch } = await connect();
    upstream.answer({ text: ['Hello', ', ', 'world'], paceMs: 50 });
    const chat = new OpenAI({ fetch, baseURL: 'http://session/v1', apiKey: 'unused' });
    assert.equal(await words(chat, (count) => count === 1 && network.cut()), 'Hello, world');
  } finally {
    await close();
  }
});

test('a toy answers while there is no key', async () => {
  const { connect, close } = await createTestServer({ onRequest: createChat({}), time: 'real' });
  try {
    const { fetch } = await connect();
    const chat = new OpenAI({ fetch, baseURL: 'http://session/v1', apiKey: 'unused' });
    assert.deepEqual(
      (await chat.models.list()).data.map(({ id }) => id),
      ['toy'],
    );
    assert.match(await words(chat), /^You said “hello”.*is finished\.$/);
  } finally {
    await close();
  }
});
