import { connect } from '@parlance/client';
import { SessionChatTransport } from '@parlance/client/ai';
import { defineContract, serve } from '@parlance/client/contract';
import { createServer } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { PlainChat } from '../ai/plain-chat.js';

/** Pages that a server refuses, and what is passed in place of a transport, a contract or a fetch. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

interface Line {
  readonly event?: unknown;
  readonly message: string;
}

function recording() {
  const lines: Line[] = [];
  const warn = (fields: object, message: string) => void lines.push({ ...fields, message });
  return { lines, logger: { debug() {}, info() {}, warn, error: warn } };
}

class OfAnotherOrigin extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols, { origin: 'http://127.0.0.1:5175' });
  }
}

it.each([
  ['an origin that is not listed', OfAnotherOrigin, /origin http:\/\/127\.0\.0\.1:5175 is not admitted/],
  ['credentials that are missing', WebSocket, /no token was presented/],
])('the page and the server say %s, once', async (_name, Socket, expected) => {
  const [page, at] = [recording(), recording()];
  const server = createServer({
    origins: ['http://localhost:5173'],
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    logger: at.logger,
  });
  open.push(server);
  const { url } = await server.listen();
  const transport = new SessionChatTransport(() => connect(url, { WebSocket: Socket as never }), {
    logger: page.logger,
  });
  for (let i = 0; i < 3; i++) {
    const chat = new PlainChat(transport);
    await chat.sendMessage({ text: 'hi' });
    expect([chat.status, chat.error?.message]).toEqual(['error', expect.stringMatching(expected)]);
  }
  for (const { lines } of [page, at])
    expect(lines.map(({ message }) => message)).toEqual([expect.stringMatching(expected)]);
});

describe('a mistake', () => {
  it.each([
    ['nothing', undefined, /SessionChatTransport: expected what to connect to/],
    ['null', null, /expected what to connect to/],
    ['a URL', 'wss://example.org/session', /\{ url: '\/session' \}/],
    ['options of DefaultChatTransport', { api: '/api/chat' }, /api is an option of DefaultChatTransport/],
    ['an object of another kind', {}, /expected what to connect to/],
  ])('in place of the session of a transport, %s, is named', (_name, source, message) => {
    expect(() => new SessionChatTransport(source as never)).toThrow(
      expect.objectContaining({ code: 'invalid_argument', message: expect.stringMatching(message) }),
    );
  });

  it.each([
    [{ ask: {} }, { ask: () => 'x' }, /serve: a contract is expected/],
    [undefined, {}, /serve: a contract is expected/],
    [defineContract({ ask: {} }), undefined, /serve: handlers/],
  ])('in place of a contract is named: case %#', (contract, handlers, message) => {
    expect(() => serve(contract as never, handlers as never)).toThrow(
      expect.objectContaining({ name: 'ProtocolError', message: expect.stringMatching(message) }),
    );
  });

  it('fetch: session is named, in the cause of the error of the library', async () => {
    const server = createServer({ onRequest: () => '' });
    open.push(server);
    const session = await connect((await server.listen()).url, { WebSocket });
    open.push(session);
    const { default: OpenAI } = await import('openai');
    const openai = new OpenAI({ apiKey: 'key', maxRetries: 0, fetch: session as never });
    await expect(openai.models.list()).rejects.toMatchObject({
      cause: { code: 'invalid_argument', message: expect.stringMatching(/pass session\.fetch/) },
    });
  });
});
