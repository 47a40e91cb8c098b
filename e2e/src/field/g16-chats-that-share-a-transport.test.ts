import { randomUUID } from 'node:crypto';
import { connect } from '@parlance/client';
import { SessionChatTransport, sessionChats } from '@parlance/client/ai';
import { createServer } from '@parlance/server';
import { chatHandler } from '@parlance/server/ai';
import type { UIMessageChunk } from 'ai';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { InitChat, PlainChat } from '../ai/plain-chat.js';

/** Two chats of one transport, of which one is disposed of; and answers that are left. */

const open: AsyncDisposable[] = [];
beforeEach(() => void vi.stubGlobal('window', globalThis));
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
  vi.unstubAllGlobals();
});

async function setUp(keep?: false) {
  let opened = 0;
  const stopped: string[] = [];
  const finish = new Map<string, () => void>();
  const server = createServer({
    authenticate: () => {
      opened++;
      return { principal: 'ada' };
    },
    onRequest: chatHandler(
      ({ id, signal }) =>
        (async function* (): AsyncGenerator<UIMessageChunk> {
          yield { type: 'start', messageId: randomUUID() };
          yield { type: 'text-start', id: '1' };
          yield { type: 'text-delta', id: '1', delta: 'begun' };
          await new Promise<void>((resolve) => {
            finish.set(id, resolve);
            signal.addEventListener('abort', () => {
              stopped.push(id);
              resolve();
            });
          });
          if (!signal.aborted) yield { type: 'text-delta', id: '1', delta: ' and done' };
          yield { type: 'text-end', id: '1' };
          yield { type: 'finish' };
        })(),
      keep === false ? { keep } : {},
    ),
  });
  open.push(server);
  const { url } = await server.listen();
  const create = (onAbort?: 'leave') => {
    const transport = new SessionChatTransport({ url, WebSocket, token: 't' }, { onAbort });
    open.push({ [Symbol.asyncDispose]: () => transport.close({ answers: 'end' }) });
    return transport;
  };
  return { server, url, create, stopped, finish: (id: string) => finish.get(id)?.(), opened: () => opened };
}

/** As `AbstractChat.dispose` of AI SDK 7, which that of AI SDK 6 lacks. */
async function dispose(chat: PlainChat, transport: SessionChatTransport): Promise<void> {
  await chat.stop();
  void transport.close();
}

describe('a transport of two chats, of which one is disposed of', () => {
  it('stays open for the answer of the other one, and is closed after it', async () => {
    const { server, create, finish, opened } = await setUp();
    const transport = create();
    const [one, two] = [new PlainChat(transport, 'one'), new PlainChat(transport, 'two')];
    const asked = [one, two].map((chat) => chat.sendMessage({ text: 'hi' }));
    await expect.poll(() => [one.text, two.text]).toEqual(['begun', 'begun']);
    await dispose(one, transport);
    finish('two');
    await Promise.all(asked);
    expect([two.text, two.error]).toEqual(['begun and done', undefined]);
    await expect.poll(() => server.sessions.size).toBe(0);
    // And asks again in another session.
    const again = two.sendMessage({ text: 'hi' });
    await expect.poll(() => two.text).toBe('begun');
    finish('two');
    await again;
    expect([two.text, two.error, opened()]).toEqual(['begun and done', undefined, 2]);
  });

  it('asks in another session while the first one is still read', async () => {
    const { create, finish, opened } = await setUp();
    const transport = create();
    const [one, two] = [new PlainChat(transport, 'one'), new PlainChat(transport, 'two')];
    const first = one.sendMessage({ text: 'hi' });
    await expect.poll(() => one.text).toBe('begun');
    const closed = transport.close();
    const second = two.sendMessage({ text: 'hi' });
    await expect.poll(() => two.text).toBe('begun');
    finish('one');
    await Promise.all([first, closed]);
    finish('two');
    await second;
    expect([one.text, two.text, opened()]).toEqual(['begun and done', 'begun and done', 2]);
  });

  it('is closed at once if that is asked for, and answers end', async () => {
    const { create, opened } = await setUp();
    const transport = create();
    const chat = new PlainChat(transport);
    const asked = chat.sendMessage({ text: 'hi' });
    await expect.poll(() => chat.text).toBe('begun');
    await transport.close({ answers: 'end' });
    await asked;
    expect([chat.code, opened()]).toEqual(['session_closed', 1]);
  });
});

describe('an answer that is left', () => {
  it.each([true, false])('continues with onAbort: leave, and stop(id) stops it; kept: %s', async (isKept) => {
    const { create, stopped, finish } = await setUp(isKept ? undefined : false);
    const transport = create('leave');
    const chat = new PlainChat(transport);
    const asked = chat.sendMessage({ text: 'hi' });
    await expect.poll(() => chat.text).toBe('begun');
    await chat.stop();
    await asked;
    expect([chat.status, stopped]).toEqual(['ready', []]);
    if (isKept) {
      const next = new PlainChat(create('leave'));
      const followed = next.resumeStream();
      await expect.poll(() => next.text).toBe('begun');
      await next.stop();
      await followed;
      const last = new PlainChat(transport);
      const read = last.resumeStream();
      await expect.poll(() => last.text).toBe('begun');
      finish('chat');
      await read;
      expect([last.text, stopped]).toEqual(['begun and done', []]);
      void chat.sendMessage({ text: 'again' });
      await expect.poll(() => chat.text).toBe('begun');
      // Another page of the same principal stops it.
      await create('leave').stop('chat');
    } else await transport.stop('chat');
    await expect.poll(() => stopped).toEqual(['chat']);
    await transport.stop('chat');
    await transport.stop('no such chat');
  });

  it('stops with the chat that was asked and with one that follows', async () => {
    const { create, stopped } = await setUp();
    const [one, two] = [new PlainChat(create()), new PlainChat(create())];
    const asked = one.sendMessage({ text: 'hi' });
    await expect.poll(() => one.text).toBe('begun');
    void two.resumeStream();
    await expect.poll(() => two.text).toBe('begun');
    await two.stop();
    await asked;
    expect([one.status, stopped]).toEqual(['ready', ['chat']]);
  });
});

describe('sessionChats', () => {
  it('keeps one chat for each ID, with what each is created with', async () => {
    const { create, finish } = await setUp();
    const ended: string[] = [];
    const chats = sessionChats(create(), {
      Chat: InitChat,
      init: (id) => ({ onFinish: () => void ended.push(id) }),
    });
    const stored = { id: '1', role: 'user' as const, parts: [] };
    const chat = chats.get('one', [stored]);
    expect(chats.get('one', [])).toBe(chat);
    expect([chat.id, chat.messages, chats.get('two').messages]).toEqual(['one', [stored], []]);
    const asked = chat.sendMessage({ text: 'hi' });
    await expect.poll(() => chat.text).toBe('begun');
    finish('one');
    await asked;
    expect(ended).toEqual(['one']);
    expect([chats.delete('one'), chats.delete('one'), chats.get('one') === chat]).toEqual([
      true,
      false,
      false,
    ]);
    const two = chats.get('two');
    chats.clear();
    expect(chats.get('two')).not.toBe(two);
  });

  it('keeps only so many that nobody holds', async () => {
    const { create } = await setUp();
    let created = 0;
    const chats = sessionChats(create(), {
      Chat: class extends InitChat {
        constructor(init: ConstructorParameters<typeof InitChat>[0]) {
          super(init);
          created++;
        }
      },
      maxChats: 2,
    });
    const { gc } = globalThis;
    const held = chats.get('held');
    for (const id of ['a', 'b', 'c']) chats.get(id);
    // A component that shows a chat finds its own again, however many others there were meanwhile.
    expect(chats.get('held')).toBe(held);
    expect(created).toBe(4);
    chats.get('c');
    expect(created).toBe(4);
    if (gc === undefined) return;
    await vi.waitFor(async () => {
      gc();
      await new Promise((resolve) => setTimeout(resolve));
      const before = created;
      chats.get('a');
      expect(created).toBe(before + 1);
    });
  });

  it('keeps none where all users share a module', async () => {
    const { create } = await setUp();
    vi.unstubAllGlobals();
    const chats = sessionChats(create(), { Chat: InitChat });
    expect(chats.get('one')).not.toBe(chats.get('one'));
  });

  it.each([
    [undefined, /import \{ Chat \} from '@ai-sdk\/react'/],
    [{}, /import \{ Chat \} from '@ai-sdk\/react'/],
    [{ Chat: InitChat, maxChats: 0 }, /maxChats/],
    [{ Chat: InitChat, maxChats: 1.5 }, /maxChats/],
    [{ Chat: InitChat, max: 1 }, /unknown option "max"/],
  ])('refuses the options %o', (options, message) => {
    const transport = new SessionChatTransport(() => connect('ws://127.0.0.1:1'));
    expect(() => sessionChats(transport, options as never)).toThrow(
      expect.objectContaining({ code: 'invalid_option', message: expect.stringMatching(message) }),
    );
  });
});
