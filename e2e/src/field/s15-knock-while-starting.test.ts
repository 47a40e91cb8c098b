import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { ClientSession } from '@parlance/client';
import { createServer, type Feature } from '@parlance/server';
import { afterEach, expect, it } from 'vitest';
import { PREPARED } from '../../../packages/cli/src/serve/toy/answers.js';
import { freePort, startServing } from '../kit/cli-process.js';
import { createPeers } from '../kit/peers.js';

/** `parlance serve --data` is killed in mid-answer, and its clients knock while it begins again. */

const CLIENTS = 18;
const QUESTION = 'write a debounce function in typescript.';

/** Makes the loading of a server last until `go` is called; it fails if `go` gets an error. */
function slowly() {
  const starts: { readonly go: (error?: Error) => void }[] = [];
  const feature: Feature = {
    name: 'slow',
    install: () => ({
      start: () =>
        new Promise<void>((resolve, reject) => {
          starts.push({ go: (error) => (error === undefined ? resolve() : reject(error)) });
        }),
    }),
  };
  return { feature, starts };
}

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

/** An answer as a chat page reads it. */
class Answer {
  text = '';
  ids = new Set<string>();
  readonly begun: Promise<void>;
  readonly whole: Promise<void>;
  #begin: () => void = () => {};

  constructor(session: ClientSession) {
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
    this.whole = this.#read(session);
    this.whole.catch(() => {});
  }

  async #read(session: ClientSession): Promise<void> {
    const response = await session.fetch('/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'any',
        stream: true,
        messages: [
          { role: 'system', content: 'You help people who write programs. '.repeat(20) },
          { role: 'user', content: QUESTION },
        ],
      }),
    });
    let rest = '';
    for await (const piece of response.body as ReadableStream<Uint8Array>) {
      const lines = (rest + Buffer.from(piece).toString()).split('\n\n');
      rest = lines.pop() as string;
      for (const line of lines) this.#take(line.replace('data: ', ''));
    }
  }

  #take(data: string): void {
    if (data === '[DONE]') return;
    const { id, choices } = JSON.parse(data);
    this.ids.add(id);
    this.text += choices[0]?.delta?.content ?? '';
    if (this.text !== '') this.#begin();
  }
}

it('continues each session and each answer, however early the clients come', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'parlance-knock-'));
  const args = ['--data', folder, '--no-ui', '--port', await freePort()];
  const first = await startServing(args);
  const lost: string[] = [];
  const dial = async (): Promise<ClientSession> => {
    const session = await peers.dial(first.url, {
      reconnect: { minDelayMs: 1, maxDelayMs: 10, connectWithinMs: 30_000 },
    });
    session.on('reset', ({ reason }) => lost.push(reason));
    return session;
  };
  const sessions = await Promise.all(Array.from({ length: CLIENTS }, dial));
  const ids = sessions.map(({ id }) => id);
  const answers = sessions.map((session) => new Answer(session));
  await Promise.all(answers.map(({ begun }) => begun));
  await first.stop('SIGKILL');
  // That the next process gets the file proves from its first moment on that the former one is dead.
  const second = await startServing(args);
  await Promise.all(answers.map(({ whole }) => whole));
  for (const { text, ids } of answers) expect([text, ids.size]).toEqual([PREPARED.get(QUESTION), 1]);
  expect([lost, sessions.map(({ id }) => id)]).toEqual([[], ids]);
  await Promise.all(sessions.map((session) => session.close()));
  await second.stop();
  await rm(folder, { recursive: true });
});

it.each(['listen', 'attach'] as const)(
  'admits nobody before what it needs is loaded, with %s',
  async (how) => {
    const { feature, starts } = slowly();
    const logged: unknown[] = [];
    const log = ({ event }: Readonly<Record<string, unknown>>) => void logged.push(event);
    await using server = createServer({
      features: [feature],
      onRequest: ({ text }) => text,
      logger: { debug: log, info: log, warn: log, error: log },
    });
    const port = Number(await freePort());
    const url = `ws://127.0.0.1:${port}/session`;
    const http = createHttpServer();
    if (how === 'attach') server.attach(http.listen(port, '127.0.0.1'));
    const listening = how === 'listen' ? server.listen({ port }) : undefined;
    const dialing = peers.dial(url, {
      reconnect: { minDelayMs: 5, maxDelayMs: 20, connectWithinMs: 30_000 },
    });
    if (how === 'attach') {
      while (starts.length < 1) await pause(5);
      // It fails, and the client that comes again makes it load again.
      starts[0]?.go(new Error('no such file'));
      while (starts.length < 2) await pause(5);
      expect(logged).toContain('server.failed');
    }
    await pause(100);
    expect([server.sessions.size, logged.filter((event) => event === 'session.accepted')]).toEqual([0, []]);
    starts.at(-1)?.go();
    const session = await dialing;
    expect((await session.request('there?')).text).toBe('there?');
    await listening;
    await session.close();
    http.close();
  },
);

it('closes those who wait if it is closed while it loads', async () => {
  const { feature } = slowly();
  const server = createServer({ features: [feature] });
  await using http = createHttpServer();
  server.attach(http);
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/session`;
  const dialing = peers.dial(url, { reconnect: false });
  dialing.catch(() => {});
  await pause(50);
  void server.close();
  await expect(dialing).rejects.toThrow();
});
