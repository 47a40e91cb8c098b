import { connect } from '@parlance/client';
import { server, show } from './shown.js';

/** A chat over `session.fetch`, each request with the whole history, as context coding expects it. */

interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

const session = await connect(server);
const messages: ChatMessage[] = [];
for (const content of ['why is the sky blue?', 'and at dusk?', 'and on Mars?']) {
  messages.push({ role: 'user', content });
  messages.push({ role: 'assistant', content: await answer() });
}

async function answer(): Promise<string> {
  const { body } = await session.fetch('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'page', messages, stream: true }),
  });
  let [text, rest] = ['', ''];
  for await (const chunk of chunksOf(body!.pipeThrough(new TextDecoderStream()))) {
    const events = (rest + chunk).split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      const data = event.replace(/^data: /, '');
      const word = data === '[DONE]' ? '' : (JSON.parse(data).choices[0]?.delta.content ?? '');
      if (word !== '') show(word);
      text += word;
    }
  }
  return text;
}

async function* chunksOf<T>(stream: ReadableStream<T>): AsyncGenerator<T> {
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}
