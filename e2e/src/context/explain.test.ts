import { connect, type Session } from '@parlance/client';
import { createSessionExplainer, type Direction, type Explanation } from '@parlance/protocol/inspect';
import { createServer } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createCuttingProxy } from '../kit/cutting-proxy.js';

/** Sessions with an explainer beside them, which must understand every frame. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

/** A WebSocket class whose frames are explained as they pass. */
function explained(log: Explanation[]): typeof WebSocket {
  const explainer = createSessionExplainer({ preview: 1_000_000 });
  const see = (direction: Direction, data: unknown) => {
    const frame = typeof data === 'string' ? data : new Uint8Array(data as ArrayBuffer);
    log.push(explainer.explain(direction, frame));
  };
  return class extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      this.addEventListener('message', ({ data }) => see('received', data));
    }
    override send(data: never): void {
      see('sent', data);
      super.send(data);
    }
  } as typeof WebSocket;
}

const WORDS = 'the quick brown fox jumps over a lazy dog and comes back for more of it'.split(' ');
const sentence = (turn: number) =>
  Array.from({ length: 30 }, (_, i) => WORDS[(i * (turn + 3)) % WORDS.length]).join(' ');

/** A conversation in which every request repeats all messages before it. */
function requests(turns: number): string[] {
  const messages: { role: string; content: string }[] = [];
  return Array.from({ length: turns }, (_, turn) => {
    messages.push({ role: 'user', content: sentence(turn) });
    return JSON.stringify({ model: 'gpt-4o', messages });
  });
}

async function talk(session: Session, texts: readonly string[]): Promise<void> {
  for (const text of texts) {
    let reply = '';
    for await (const part of session.stream(text)) reply += part.text;
    expect(reply).toBe(text);
  }
}

describe('an explained session', () => {
  it.each([
    ['in context', {}],
    ['without context', { extensions: { context: false } }],
  ])('%s shows every message, over lost connections', async (_name, options) => {
    const server = createServer({
      async *onRequest(request) {
        const { text } = request;
        for (let at = 0; at < text.length; at += 1000) yield text.slice(at, at + 1000);
      },
    });
    open.push(server);
    const { port } = await server.listen();
    const proxy = await createCuttingProxy(port);
    open.push(proxy);
    const log: Explanation[] = [];
    const session = await connect(`ws://127.0.0.1:${proxy.port}/session`, {
      WebSocket: explained(log),
      // HELLO is among the messages that it shows.
      earlyHello: false,
      ...options,
    });
    open.push(session);

    const chat = requests(12);
    const large = sentence(5).repeat(2000);
    await talk(session, chat.slice(0, 6));
    proxy.cut();
    await talk(session, [...chat.slice(6), large]);
    // A cancelled request must not affect how later ones are read.
    const given = session.stream(large);
    given.cancel();
    for await (const part of given) expect(part.text).not.toBe('');
    await talk(session, requests(14).slice(12));
    await session.close();

    expect(log.filter(({ error }) => error !== undefined)).toEqual([]);
    const inContext = log.filter(({ summary }) => /CONTEXT: repeats [^n]/.test(summary));
    expect(inContext.length > 0).toBe(session.negotiated.extensions['context'] !== undefined);
    expect(log.filter(({ label }) => label === 'HELLO')).toHaveLength(2);
    const shown = new Set(log.filter(({ label }) => label === 'request').map(({ preview }) => preview));
    for (const text of chat) expect(shown).toContain(text);
    const said = log
      .filter(({ label }) => label === 'chunk')
      .map(({ preview }) => preview ?? '')
      .join('');
    for (const text of chat) expect(said).toContain(text);
  });
});
