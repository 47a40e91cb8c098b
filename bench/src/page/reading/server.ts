import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { createUserInterface } from '@parlance/server/ui';
import { BUILT_PAGES } from '../../../../scripts/build-ui.js';
import { offer } from '../../../../scripts/child-process.js';
import { UNLIMITED } from '../../unlimited.js';
import { longText, wordsOf } from './text.js';

/** A model that writes at a pace, behind the chat page and behind a page with `useChat`, in a process of its own. */

const WORDS_A_SECOND = 1_200;
const TICK_MS = 10;
const LONG = wordsOf(longText(5_000));
const SHORT = wordsOf(longText(40));

/** Writes an event for each word: the long text at the pace of the model, the short one at once. */
async function write(
  request: IncomingMessage,
  response: ServerResponse,
  { first, word, last }: { first: object[]; word: (text: string) => object; last: object[] },
): Promise<void> {
  let body = '';
  for await (const chunk of request) body += chunk;
  const isLong = body.lastIndexOf('at length') > body.lastIndexOf('in short');
  response.writeHead(200, { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' });
  const say = (event: object) => void response.write(`data: ${JSON.stringify(event)}\n\n`);
  for (const event of first) say(event);
  const words = isLong ? LONG : SHORT;
  const begun = performance.now();
  for (let said = 0; said < words.length && !response.destroyed; ) {
    const due = isLong ? ((performance.now() - begun) / 1000) * WORDS_A_SECOND : Infinity;
    for (; said < due && said < words.length; said++) say(word(words[said] as string));
    await sleep(TICK_MS);
  }
  for (const event of last) say(event);
  response.end('data: [DONE]\n\n');
}

async function listen(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<string> {
  const http = createHttpServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
}

const commands = {
  /** The address of the built chat page, with a gateway to the model. */
  async ours() {
    const chunk = (delta: object, finish: string | null = null) => ({
      id: 'chat',
      object: 'chat.completion.chunk',
      created: 0,
      model: 'paced',
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
    const upstream = await listen((request, response) =>
      write(request, response, {
        first: [chunk({ role: 'assistant', content: '' })],
        word: (content) => chunk({ content }),
        last: [chunk({}, 'stop')],
      }),
    );
    const onRequest = createOpenAIGateway({ baseUrl: `${upstream}/v1` });
    const server = createServer({ limits: UNLIMITED, onRequest });
    const { port } = await server.listen({ respond: createUserInterface({ folder: BUILT_PAGES }) });
    return `http://127.0.0.1:${port}/`;
  },

  /** The address of the built page in `folder`, which asks at `/api/chat`. */
  async theirs(files: string) {
    const id = '0';
    return await listen(async (request, response) => {
      if (request.url === '/api/chat')
        return await write(request, response, {
          first: [{ type: 'start' }, { type: 'text-start', id }],
          word: (delta) => ({ type: 'text-delta', id, delta }),
          last: [{ type: 'text-end', id }, { type: 'finish' }],
        });
      const file = await fetch(new URL(request.url ?? '/', files));
      response.writeHead(file.status, { 'content-type': file.headers.get('content-type') ?? '' });
      response.end(Buffer.from(await file.arrayBuffer()));
    });
  },
};
export type ReadingServerCommands = typeof commands;

offer(commands);
