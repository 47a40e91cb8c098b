import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import { encodeHttpRequest, type Message } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createBreaker } from '../../../examples/demo/breaker.js';
import { sessionsAt } from '../../../examples/demo/chat-options.js';
import { answerTo, createResponder } from '../../../examples/demo/responder.js';
import { MemoryStore } from '../kit/memory-store.js';

/** The four buttons of the demo's chat page, two within one answer: "You will read every word, once." */

const BREAKS = ['cut', 'freeze', 'reload', 'restart'] as const;
type Break = (typeof BREAKS)[number];
const PAIRS = BREAKS.flatMap((first) => BREAKS.map((second) => [first, second] as const));

const QUESTION = 'How does an answer survive a lost connection?';
const CHAT = { model: 'any', stream: true, messages: [{ role: 'user', content: QUESTION }] } as const;
/** Parts of the answer before each of them. */
const AT = { first: 40, second: 80 };

/** A page of the demo, with what it has read. */
class Page {
  text = '';
  parts = 0;
  readonly #url: string;
  readonly #store = new MemoryStore();
  readonly #tab = randomUUID();
  readonly #profile = randomUUID().replaceAll('-', '');
  #session: ClientSession | undefined;
  #reading: Promise<void> | undefined;

  constructor(url: string) {
    this.#url = url;
  }

  async open(): Promise<void> {
    this.#session = await connect(`${this.#url.replace('http', 'ws')}session?tab=${this.#tab}`, {
      WebSocket,
      token: this.#profile,
      store: this.#store,
      reconnect: { minDelayMs: 10, maxDelayMs: 200, connectWithinMs: 30_000 },
    });
    const head = new Map([
      ['content-type', 'application/json'],
      ['x-parlance-reply-name', 'answer'],
    ]);
    const metadata = encodeHttpRequest({ method: 'POST', path: '/v1/chat/completions', headers: head });
    const reply =
      this.parts === 0
        ? this.#session.stream(JSON.stringify(CHAT), { metadata })
        : this.#session.follow('answer', { after: this.parts });
    this.#reading = this.#read(reply, this.#session);
    this.#reading.catch(() => {});
  }

  async #read(reply: AsyncIterable<Message>, session: ClientSession): Promise<void> {
    for await (const { text } of reply) {
      if (session !== this.#session) return;
      this.parts++;
      if (text !== '[DONE]') this.text += JSON.parse(text).choices[0]?.delta?.content ?? '';
    }
  }

  async has(parts: number): Promise<void> {
    while (this.parts < parts) {
      const ended = await Promise.race([pause(5), this.whole().then(() => 'ended')]);
      if (ended !== undefined) return;
    }
  }

  /** @throws what has ended the answer before it was whole. */
  whole(): Promise<void> {
    return this.#reading as Promise<void>;
  }

  async break(what: Break): Promise<void> {
    if (what === 'reload') {
      const former = this.#session as ClientSession;
      this.#session = undefined;
      await former.detach();
      return await this.open();
    }
    const { origin } = new URL(this.#url);
    const wish = `${this.#url}demo/${what}?tab=${this.#tab}`;
    expect((await fetch(wish, { method: 'POST', headers: { origin } })).status).toBe(204);
  }

  async close(): Promise<void> {
    await this.#session?.close();
  }
}

async function startDemo() {
  const http = createHttpServer();
  const restart = sessionsAt(http, createResponder({ delayMs: 10 }));
  const breaker = createBreaker({ http, restart, freezeMs: 1_000, absenceMs: 300 });
  http.on('request', (request, response) => void breaker.respond(request, response));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/`,
    async [Symbol.asyncDispose]() {
      await breaker.close();
      http.closeAllConnections();
      http.close();
    },
  };
}

describe('two breaks within one answer', () => {
  it.concurrent.each(PAIRS)('%s, then %s', async (first, second) => {
    await using demo = await startDemo();
    const page = new Page(demo.url);
    await page.open();
    await page.has(AT.first);
    await page.break(first);
    // After a cut or a freeze, nothing more comes for a while.
    if (first === 'reload' || first === 'restart') await page.has(AT.second);
    await page.break(second);
    await page.whole();
    expect(page.text).toBe(answerTo({ ...CHAT, messages: [...CHAT.messages] }));
    await page.close();
  });
});
