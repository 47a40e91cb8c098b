import { connect } from '@parlance/client';
import { SessionChatTransport } from '@parlance/client/ai';
import { createServer, type ServerOptions } from '@parlance/server';
import { chatHandler } from '@parlance/server/ai';
import type { UIMessageChunk } from 'ai';
import { afterEach, expect, it } from 'vitest';
import WebSocket from 'ws';
import { PlainChat } from '../ai/plain-chat.js';

/** JSON as chats have it: files, tables of tools and deep results, within the limit of a message. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function serve(options: ServerOptions) {
  const server = createServer({ limits: { bytesPerSecond: Infinity }, ...options });
  open.push(server);
  const { url } = await server.listen();
  const session = await connect(url, { WebSocket });
  open.push(session);
  return session;
}

const rows = Array.from({ length: 3_000 }, (_, row) =>
  Object.fromEntries(Array.from({ length: 25 }, (_, column) => [`c${column}`, row])),
);
const nested = (depth: number) => {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = { value };
  return value;
};

const VALUES: readonly (readonly [string, unknown])[] = [
  ['12,000 numbers', Array.from({ length: 12_000 }, (_, i) => i)],
  ['3,000 rows of 25 columns', rows],
  ['33 levels', nested(33)],
  ['500 levels', nested(500)],
  ['a text of 11 MB', 'x y '.repeat(2_750_000)],
];

it.each(VALUES)('a tool of a chat returns %s, and the chat continues with it', async (_name, output) => {
  let asked = 0;
  const session = await serve({
    onRequest: chatHandler(() =>
      (async function* (): AsyncGenerator<UIMessageChunk> {
        yield { type: 'start', messageId: `m${++asked}` };
        if (asked === 1) {
          yield { type: 'tool-input-available', toolCallId: 't', toolName: 'rows', input: {} };
          yield { type: 'tool-output-available', toolCallId: 't', output };
        }
        yield { type: 'finish' };
      })(),
    ),
  });
  const chat = new PlainChat(new SessionChatTransport(session));
  await chat.sendMessage({ text: 'read' });
  expect([chat.status, chat.error]).toEqual(['ready', undefined]);
  expect(chat.lastMessage?.parts[0]).toMatchObject({ state: 'output-available' });
  // The output is part of each further message.
  await chat.sendMessage({ text: 'and now?' });
  expect([chat.status, chat.error, asked]).toEqual(['ready', undefined, 2]);
});

it.each([7.5, 8.5, 11.5])('a file of %s MB arrives', async (megabytes) => {
  const sizes: number[] = [];
  const session = await serve({
    onRequest: chatHandler(({ messages }) => {
      for (const part of messages.at(-1)?.parts ?? []) if (part.type === 'file') sizes.push(part.url.length);
      return (async function* (): AsyncGenerator<UIMessageChunk> {
        yield { type: 'finish' };
      })();
    }),
  });
  const chat = new PlainChat(new SessionChatTransport(session));
  const url = `data:application/pdf;base64,${Buffer.alloc(megabytes * 1e6, 1).toString('base64')}`;
  await chat.sendMessage({ text: 'read', files: [{ type: 'file', mediaType: 'application/pdf', url }] });
  expect([chat.status, chat.error, sizes]).toEqual(['ready', undefined, [url.length]]);
});

it('a value that would take much more memory than its bytes is refused, and the session lives', async () => {
  const session = await serve({ onRequest: (request) => ({ json: [typeof request.json()] }) });
  const braces = `[${'{},'.repeat(1_000_000)}{}]`;
  await expect(session.request(braces)).rejects.toMatchObject({ code: 'too_many_values', side: 'remote' });
  expect((await session.request('[{}]')).json()).toEqual(['object']);
});

it('a value beyond a limit of the application is refused', async () => {
  const session = await serve({
    limits: { maxArrayLength: 10_000 },
    onRequest: (request) => ({ json: typeof request.json() }),
  });
  const list = (length: number) => ({ json: new Array(length).fill(0) });
  await expect(session.request(list(10_001))).rejects.toMatchObject({ code: 'array_too_long' });
  expect((await session.request(list(10_000))).json()).toBe('object');
});
