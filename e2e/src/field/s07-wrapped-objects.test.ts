import type { Message, Session } from '@parlance/client';
import { SessionChatTransport, sessionChats } from '@parlance/client/ai';
import { keptReplies } from '@parlance/server';
import { createTestServer } from '@parlance/server/testing';
import { isProxy, reactive, readonly, ref } from '@vue/reactivity';
import { afterEach, describe, expect, it } from 'vitest';
import { InitChat } from '../ai/plain-chat.js';

/** Sessions, messages, replies and transports in the reactive state of a page, whose libraries wrap what they hold. */

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

const WRAPPERS = [
  ['reactive() of Vue', <Value extends object>(value: Value) => reactive({ value }).value as Value],
  ['reactive() of the object itself', <Value extends object>(value: Value) => reactive(value) as Value],
  ['ref() of Vue', <Value extends object>(value: Value) => ref(value).value as Value],
  ['readonly() of Vue', <Value extends object>(value: Value) => readonly({ value }).value as Value],
  ['a Proxy', <Value extends object>(value: Value) => new Proxy(value, {})],
  ['a Proxy of a Proxy', <Value extends object>(value: Value) => new Proxy(new Proxy(value, {}), {})],
] as const;

describe.each(WRAPPERS)('%s', (_name, wrap) => {
  async function setUp() {
    const server = await createTestServer({
      features: [keptReplies({ keep: true })],
      authenticate: () => ({ principal: 'ada' }),
      async *onRequest(request) {
        yield `${request.text} one `;
        yield 'two';
      },
      onSession: (session: Session) => void wrap(session).send('hello'),
    });
    open.push(server);
    return await server.connect();
  }

  it('has a session as it is', async () => {
    const raw = await setUp();
    const session = wrap(raw);
    const seen: string[] = [];
    session.on('state', (state) => seen.push(state));
    expect((await session.request('x')).text).toBe('x one two');
    const seenOf = ({ id, state, principal, negotiated }: Session) => [id, state, principal, negotiated];
    expect(seenOf(session)).toEqual(seenOf(raw));
    expect(Object.keys(session.stats())).toEqual(Object.keys(raw.stats()));
    await session.send('y');
    for await (const message of session) {
      expect(wrap(message).text).toBe('hello');
      break;
    }
    const { closed } = session;
    await session.close();
    await closed;
    expect(seen).toContain('closed');
  });

  it('has messages as they are', async () => {
    const session = await setUp();
    const messages: Message[] = [];
    for await (const message of session) {
      messages.push(wrap(message));
      break;
    }
    const [message] = messages as [Message];
    expect([message.text, message.bytes.length, message.metadata, message.algorithm]).toEqual([
      'hello',
      5,
      {},
      expect.any(String),
    ]);
    expect(() => message.json()).toThrow(expect.objectContaining({ code: 'bad_json' }));
  });

  it('has replies as they are', async () => {
    const session = await setUp();
    const reply = wrap(session.stream('x'));
    const parts: string[] = [];
    for await (const part of reply) parts.push(part.text);
    expect([parts, reply.position]).toEqual([['x one ', 'two'], 2]);
    const again = wrap(session.follow(reply.keptId as string));
    expect(again.position).toBe(0);
    for await (const part of again) parts.push(part.text);
    expect(parts.length).toBe(4);
    again.unfollow();
    for await (const part of wrap(session.stream('x', { retryUnsent: true }))) parts.push(part.text);
    expect(parts.length).toBe(6);
  });

  it('has a transport and its chats as they are', async () => {
    const session = await setUp();
    const transport = wrap(new SessionChatTransport(wrap(session)));
    expect(await transport.reconnectToStream({ chatId: 'x' })).toBeNull();
    expect(wrap(sessionChats(transport, { Chat: InitChat })).get('x').id).toBe('x');
    await transport.close();
  });
});

it('is not wrapped at all by Vue', async () => {
  const server = await createTestServer({ onRequest: () => 'x' });
  open.push(server);
  const session = await server.connect();
  const message = await session.request('x');
  const state = reactive({ session, messages: [message], reply: session.stream('x') });
  expect([state.session, state.messages[0], state.reply].map(isProxy)).toEqual([false, false, false]);
  expect(state.messages[0]).toBe(message);
});
