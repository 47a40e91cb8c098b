import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ChatOpenAI } from '@langchain/openai';
import type { ClientSession, SessionStore } from '@parlance/client';
import { RequestError } from '@parlance/protocol';
import type { Server } from '@parlance/server';
import * as parlance from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { startOpenAIUpstream } from '../kit/openai-upstream.js';
import { createPeers } from '../kit/peers.js';
import { nginxWith, proxyMissing, startProxyWith } from '../proxies/proxy-server.js';

/** Each block of docs/how-do-i.md is run as it stands, and does what its heading asks for. */

const PAGE = readFileSync(new URL('../../../docs/how-do-i.md', import.meta.url), 'utf8');
const MAX_LINES = 7;

const sections = PAGE.split(/^## /m)
  .slice(1)
  .map((text) => ({
    heading: text.slice(0, text.indexOf('\n')),
    text,
    blocks: [...text.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code),
  }));

/** The declarations of a block. */
interface Declared {
  readonly server: Server;
  readonly session: ClientSession;
  readonly [name: string]: unknown;
}
type Scope = Readonly<Record<string, unknown>>;

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const echo = ({ text }: { readonly text: string }) => `re: ${text}`;

/** Runs a block with these names. */
async function run(code: string | undefined, scope: Scope = {}): Promise<Declared> {
  const names: Scope = {
    ...parlance,
    RequestError,
    createHttpServer,
    createOpenAIGateway,
    ChatOpenAI,
    connect: peers.dial,
    onRequest: echo,
    ...scope,
  };
  const declared = [...(code ?? '').matchAll(/^const (?:\{ )?(\w+)/gm)].map(([, name]) => name);
  const body = `return (async () => {\n${code}\nreturn { ${declared.join(', ')} };\n})();`;
  const found = (await new Function(...Object.keys(names), body)(...Object.values(names))) as Declared;
  if (found.server !== undefined) peers.use(found.server);
  return found;
}

const dial = async (server: Server, options?: Parameters<typeof peers.dial>[1]) =>
  await peers.dial((await server.listen()).url, options);

/** A client of a server whose handler says `re: …`. */
async function client(options: Parameters<typeof peers.serve>[0] = { onRequest: echo }) {
  const { server, url } = await peers.serve(options);
  return { server, url, session: await peers.dial(url) };
}

const firstOf = async (session: ClientSession) => {
  for await (const message of session) return message;
  return expect.fail('there is no message');
};

/** What the block logs goes to `seen`. */
const consoleOf = (seen: string[]) => ({ log: (...values: unknown[]) => seen.push(values.join(' ')) });

const byToken = ({ token }: { readonly token: string | undefined }) =>
  token === undefined ? null : { principal: token };

/** A WebSocket class that sends what only browsers send. */
const withHeaders = (headers: Record<string, string>) =>
  class extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { headers });
    }
  };

/** By heading: how the blocks are tried. */
const TRIES: Readonly<Record<string, (blocks: readonly string[]) => Promise<void>>> = {
  'Put it beside Express, Fastify, NestJS or plain `http`': async ([code]) => {
    const app = (_request: unknown, response: { end(text: string): void }) => response.end('the app');
    const { http } = (await run(code, { app })) as unknown as { http: ReturnType<typeof createHttpServer> };
    const { port } = http.address() as AddressInfo;
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('the app');
    const session = await peers.dial(`ws://127.0.0.1:${port}/session`);
    expect((await session.request('a')).text).toBe('re: a');
    await session.close();
    http.close();
  },
  'Authentication: log in with a cookie': async ([code]) => {
    const findUser = (cookie: string | undefined) => (cookie === 'id=7' ? { principal: 'ann' } : null);
    const { server } = await run(code, { findUser });
    const { url } = await server.listen();
    const session = await peers.dial(url, { WebSocket: withHeaders({ cookie: 'id=7' }) });
    expect((await session.request('')).text).toBe('hello ann');
    await expect(peers.dial(url)).rejects.toThrow('credentials are required');
  },
  'Log in with a JWT, and renew or refresh the token': async ([server, client]) => {
    const verify = (token: string | undefined) =>
      token === 'good' ? { sub: 'ann', exp: Date.now() / 1000 + 3600 } : null;
    const found = await run(server, { verify });
    const { url } = await found.server.listen();
    let asked = 0;
    const fetchToken = () => {
      asked++;
      return 'good';
    };
    await run(client, { url, fetchToken });
    expect(asked).toBe(1);
    expect([...found.server.sessions.values()].map(({ principal }) => principal)).toEqual(['ann']);
  },
  'Allow CORS': async ([code]) => {
    const { server } = await run(code);
    const { url } = await server.listen();
    const from = (origin: string) => peers.dial(url, { WebSocket: withHeaders({ origin }) });
    for (const origin of ['https://app.example', 'https://a.app.example'])
      expect((await (await from(origin)).request('a')).text).toBe('re: a');
    await expect(from('https://evil.example')).rejects.toThrow("add it to the server's origins");
  },
  'Use rooms, and broadcast to them': async ([code]) => {
    const { server } = await run(code);
    const { url } = await server.listen();
    const [ann, ben] = await Promise.all([peers.dial(url), peers.dial(url)]);
    await expect.poll(() => server.group('lobby').size).toBe(2);
    await ann.request('hello');
    expect((await firstOf(ben)).text).toBe('hello');
  },
  'Show a typing indicator': async ([code, typing]) => {
    const { server } = await run(code);
    const { url } = await server.listen();
    const [ann, ben] = await Promise.all([peers.dial(url), peers.dial(url)]);
    await expect.poll(() => server.group('chat').size).toBe(2);
    await run(typing, { session: ann });
    expect((await firstOf(ben)).json()).toEqual({ typing: 'ann' });
  },
  'Show presence: who is online': async ([code]) => {
    const { server, url } = await peers.serve({
      authenticate: byToken,
      onSession: (session) => void server.group('lobby').add(session),
    });
    const aborter = new AbortController();
    const seen: string[] = [];
    const running = run(code, { server, console: consoleOf(seen), signal: aborter.signal }).catch(() => {});
    await peers.dial(url, { token: 'ann' });
    await expect.poll(() => seen).toContain('ann joined');
    aborter.abort();
    await running;
  },
  'Get an ack: an acknowledgement': async ([code]) => {
    const heard: string[] = [];
    const { session } = await client({
      onRequest: (request) => `saved ${(request.json() as { save: string }).save}`,
      async onSession(session) {
        for await (const { text } of session) heard.push(text);
      },
    });
    const { reply } = await run(code, { session });
    expect((reply as { text: string }).text).toBe('saved draft');
    await expect.poll(() => heard).toEqual(['a message']);
  },
  'Emit an event with a name': async ([code]) => {
    const heard: unknown[] = [];
    const { session } = await client({
      async onSession(session) {
        for await (const message of session) heard.push(message.json());
      },
    });
    await run(code, { session });
    await expect.poll(() => heard).toEqual([{ event: 'moved', data: { x: 1, y: 2 } }]);
  },
  'Set the heartbeat: ping interval and ping timeout': async ([code]) => {
    const { server } = await run(code);
    expect((await (await dial(server)).request('a')).text).toBe('re: a');
  },
  'Notice a disconnect event': async ([code]) => {
    const { server, session } = await client();
    const seen: string[] = [];
    const running = run(code, { session, console: consoleOf(seen) });
    await server.sessions.get(session.id)?.close({ code: 'over' });
    expect((await running)['code']).toBe('over');
    expect(seen).toContain('closed');
  },
  'Set the reconnect delay: reconnection': async ([code]) => {
    const { url } = await client();
    const { patient } = await run(code, { url });
    expect((await (patient as ClientSession).request('a')).text).toBe('re: a');
  },
  'Start the client before the server': async ([code]) => {
    const { server, url } = await peers.serve({ onRequest: echo });
    const { port } = new URL(url);
    await server.close();
    const running = run(code, { url });
    const later = peers.use(parlance.createServer({ onRequest: echo }));
    await later.listen({ port: Number(port) });
    expect((await ((await running)['waiting'] as ClientSession).request('a')).text).toBe('re: a');
  },
  'Queue what is sent offline: offline messages': async ([code]) => {
    const heard: string[] = [];
    const { session } = await client({
      async onSession(session) {
        for await (const { text } of session) heard.push(text);
      },
    });
    await run(code, { session });
    await expect.poll(() => heard).toEqual(['later']);
  },
  'Set the timeout of a request': async ([code]) => {
    let signal: AbortSignal | undefined;
    const { session } = await client({
      onRequest: (_request, context) => {
        signal = context.signal;
        return new Promise(() => {});
      },
    });
    await expect(run(code, { session })).rejects.toMatchObject({ code: 'timeout' });
    await expect.poll(() => signal?.aborted).toBe(true);
  },
  'Cancel an answer: stop generating': async ([code]) => {
    let isAborted = false;
    const { session } = await client({
      async *onRequest(_request, { signal }) {
        signal.addEventListener('abort', () => (isAborted = true));
        yield 'Once.';
        await new Promise(() => {});
      },
    });
    await run(code, { session });
    await expect.poll(() => isAborted).toBe(true);
  },
  'Raise the maximum message size': async ([code]) => {
    const { server } = await run(code);
    const session = await dial(server);
    expect(session.negotiated.limits.maxMessageSize).toBe(64 * 2 ** 20);
  },
  'Upload a file': async ([server, client]) => {
    const session = await dial((await run(server)).server);
    expect((await run(client, { session }))['answer']).toBe('6 bytes');
  },
  'Set a rate limit: throttle clients': async ([code]) => {
    const { server } = await run(code);
    const session = await dial(server);
    expect(session.negotiated.limits.messagesPerMinute).toBe(600);
  },
  'Use middleware': async ([code]) => {
    const seen: string[] = [];
    const { server } = await run(code, { console: consoleOf(seen) });
    expect((await (await dial(server)).request('a')).text).toBe('re: a');
    expect(seen).toEqual([expect.stringMatching(/^request \S+$/)]);
  },
  'Kick or ban a user: disconnect somebody': async ([code]) => {
    const { server, url } = await peers.serve({ authenticate: byToken, onRequest: echo });
    const [ann, ben] = await Promise.all(['ann', 'ben'].map((token) => peers.dial(url, { token })));
    await run(code, { server });
    expect((await ann?.closed)?.code).toBe('kicked');
    expect((await ben?.request('a'))?.text).toBe('re: a');
  },
  'Send an error with a code': async ([code]) => {
    const { server } = await run(code);
    const asked = (await dial(server)).request('a');
    await expect(asked).rejects.toMatchObject({ code: 'out_of_stock', data: { sku: 7 } });
  },
  'Resume after a reload': async ([code]) => {
    const { url } = await client();
    const kept = new Map<string, string>();
    const store: SessionStore = {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, value) => void kept.set(key, value),
      removeItem: (key) => void kept.delete(key),
    };
    const { session } = await run(code, { url, store });
    expect((await session.request('a')).text).toBe('re: a');
    await session.detach();
    const { session: next } = await run(code, { url, store });
    expect(next.id).toBe(session.id);
  },
  'Run a job queue': async ([code]) => {
    const { url } = await peers.serve({
      authenticate: ({ token }) => (token === undefined ? null : { principal: 'acme', agentId: token }),
    });
    await peers.dial(url, { token: 'worker-1', agentId: 'worker-1', onRequest: () => 'done' });
    const session = await peers.dial(url, { token: 'planner', agentId: 'planner' });
    expect((await run(code, { session }))['text']).toBe('done');
  },
  'Compression: is it on, and how to turn it off': async ([code]) => {
    const { server } = await run(code);
    const { extensions } = (await dial(server)).negotiated;
    expect(Object.keys(extensions)).toContain('link');
    expect(Object.keys(extensions)).not.toContain('context');
  },
  'Deploy without losing answers': async ([code]) => {
    const { server, session } = await client({
      async *onRequest() {
        yield 'one ';
        await new Promise((resolve) => setTimeout(resolve, 50));
        yield 'two';
      },
    });
    const parts = session.stream('a')[Symbol.asyncIterator]();
    expect((await parts.next()).value?.text).toBe('one ');
    const drained = run(code, { server });
    expect((await parts.next()).value?.text).toBe('two');
    await drained;
  },
  'Run several processes: scale horizontally, sticky sessions': async ([code]) => {
    const engine = parlance.memoryCluster();
    const scope = {
      redis: () => engine,
      process: { env: { PARLANCE_CLUSTER_SECRET: 'sixteen bytes at least' } },
    };
    const [here, there] = [await run(code, scope), await run(code, scope)];
    const session = await dial(here.server);
    const { url } = await there.server.listen();
    expect((await session.request('a')).text).toBe('re: a');
    expect((await (await peers.dial(url)).request('b')).text).toBe('re: b');
    expect(here.server.sessions.size + there.server.sessions.size).toBe(2);
  },
  'Use LangChain': async ([code]) => {
    await using upstream = await startOpenAIUpstream();
    const { session } = await client({ onRequest: createOpenAIGateway({ baseUrl: upstream.baseUrl }) });
    const { answer, model } = await run(code, { session });
    const { content } = answer as { content: string };
    expect(content).toContain('Tokens travel');
    let streamed = '';
    for await (const part of await (model as ChatOpenAI).stream('Why?')) streamed += part.text;
    expect(streamed).toBe(content);
    expect(upstream.requests.map(({ path }) => path)).toEqual(Array(2).fill('/v1/chat/completions'));
  },
  'Use Anthropic, Ollama, vLLM or another model': async ([code = '']) => {
    const upstream = await startOpenAIUpstream();
    try {
      const { server } = await run(code.replace('http://127.0.0.1:11434/v1', upstream.baseUrl));
      const session = await dial(server);
      expect((await session.fetch('/v1/models')).status).toBe(200);
    } finally {
      await upstream.stop();
    }
  },
  'Watch it: logs, metrics and traces': async ([code]) => {
    const events: unknown[] = [];
    const log = (fields: unknown) => void events.push(fields);
    const { server } = await run(code, { logger: { debug: log, info: log, warn: log, error: log } });
    const { port } = await server.listen();
    expect(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()).toContain('parlance_sessions');
    expect(events.length).toBeGreaterThan(0);
  },
};

describe('How do I …?', () => {
  it.each(sections.filter(({ blocks }) => blocks.length > 0))('$heading', async ({ heading, blocks }) => {
    for (const block of blocks) expect(block.trimEnd().split('\n').length).toBeLessThanOrEqual(MAX_LINES);
    const attempt = TRIES[heading] ?? expect.fail(`nothing tries the code below "${heading}"`);
    await attempt(blocks);
  });

  const missing = proxyMissing('nginx');
  it.skipIf(missing !== undefined)(
    missing ?? 'forwards WebSockets and HTTP by the lines for nginx',
    async () => {
      const [, lines = expect.fail('there are none')] = /^```nginx\n([\s\S]*?)^```$/m.exec(PAGE) ?? [];
      const { url } = await peers.serve({
        authenticate: byToken,
        trustedProxies: ['127.0.0.1'],
        onRequest: (_request, { session }) => session.remoteAddress,
      });
      const forwarded = lines.replace('127.0.0.1:8765', new URL(url).host);
      await using nginx = await startProxyWith('nginx', (port, folder) =>
        nginxWith(folder, `server { listen 127.0.0.1:${port}; ${forwarded} }`),
      );
      for (const transport of ['websocket', 'http'] as const) {
        const session = await peers.dial(`ws://127.0.0.1:${nginx.port}/session`, {
          token: 'ann',
          transports: [transport],
        });
        expect((await session.request('where am I?')).text).toBe('127.0.0.1');
        await session.close();
      }
    },
  );

  it('has a link in each answer', () => {
    expect(sections.filter(({ text }) => !/\]\([^)]+\)/.test(text)).map(({ heading }) => heading)).toEqual(
      [],
    );
  });

  it('has the words for which people look', () => {
    const words =
      'Express Fastify cookie JWT CORS room broadcast ack typing presence heartbeat ping disconnect reconnect offline timeout size upload rate middleware kick reload queue compression self-signed sticky nginx Docker Kubernetes serverless Next.js React Vue Svelte Native CDN Bun Deno TypeScript Anthropic Ollama vLLM LangChain MCP CSP Python Socket.IO license changelog metrics'.split(
        ' ',
      );
    const headings = sections.map(({ heading }) => heading.toLowerCase()).join('\n');
    expect(words.filter((word) => !headings.includes(word.toLowerCase()))).toEqual([]);
  });
});
