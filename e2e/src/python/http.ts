import { createServer, type FetchContext, type Metadata, type ServerSession } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { CASES } from '../field/forwards-unchanged/cases.js';
import { expectedOf, shown } from '../field/forwards-unchanged/compare.js';
import { ANSWERS, OF_ANTHROPIC } from '../field/forwards-unchanged/sdk.js';
import { type Answer, Sight, startUpstream } from '../field/forwards-unchanged/upstream.js';
import {
  CHAT,
  COUNT,
  forwardTo,
  type Observed,
  observe,
  openWays,
  type Through,
} from '../field/forwards-unchanged/ways.js';
import { startOpenAIUpstream } from '../kit/openai-upstream.js';
import { UNLIMITED } from '../kit/unlimited.js';

/**
 * APIs, and servers that forward to them, for the tests of HTTP in `python/`: the API of the table of
 * `field/forwards-unchanged`, and one that replays answers of OpenAI. It prints their addresses, and answers commands in a
 * session.
 */

const serve = async (options: Parameters<typeof createServer>[0]): Promise<string> =>
  (
    await createServer({ onError: () => {}, limits: UNLIMITED, ...options }).listen({
      port: 0,
      host: '127.0.0.1',
    })
  ).url;

const upstream = await startUpstream();
const ways = await openWays(upstream);
const openai = await startOpenAIUpstream();
let sight = new Sight();

function begin(answer: Answer): void {
  sight = new Sight();
  upstream.begin(answer, sight);
}

interface Seen {
  readonly case: number;
  readonly way: Through;
  readonly seen: Omit<Observed, 'heldBack' | 'asked'>;
}

const commands: Readonly<Record<string, (given: never) => unknown>> = {
  /** The requests of the table. */
  cases: () =>
    CASES.map(({ name, method = 'POST', path = '/v1/chat/completions', headers, body }) => {
      const hasBody = body !== undefined || method === 'POST';
      const content = hasBody ? (body?.() ?? CHAT) : '';
      return {
        name,
        method,
        path,
        headers: headers ?? (hasBody ? { 'content-type': 'application/json' } : {}),
        body: Buffer.from(content as Uint8Array).toString('base64'),
      };
    }),
  begin: ({ case: index }: { case: number }) => begin((CASES[index] as (typeof CASES)[number]).answer),
  /** The client has seen the head, or more of the body. */
  report: ({ text }: { text: string }) => sight.report(text),
  /** Compares what the client has seen with what `fetch` of Node sees directly. */
  async judge({ case: index, way, seen }: Seen) {
    sight.end();
    const each = CASES[index] as (typeof CASES)[number];
    const headers = Object.fromEntries(Object.entries(seen.headers).filter(([name]) => COUNT.test(name)));
    const through = shown({ ...seen, headers, heldBack: sight.heldBack, asked: upstream.asked });
    const direct = await observe(ways, 'direct', upstream, each, each.answer);
    const expected = expectedOf(direct, each, way);
    return JSON.stringify(through) === JSON.stringify(expected) ? {} : { through, expected };
  },
  /** The streams that SDKs read. */
  streams: () => ({ openai: Object.keys(ANSWERS), anthropic: Object.keys(OF_ANTHROPIC) }),
  beginStream: ({ name }: { name: string }) => begin((ANSWERS[name] ?? OF_ANTHROPIC[name]) as Answer),
  endStream() {
    sight.end();
    return { asked: upstream.asked, heldBack: sight.heldBack };
  },
  /** What the API that replays has got. */
  aborted: () => counts.aborted,
  openai: () => ({ open: openai.openExchanges, asked: openai.requests.length }),
};

/** Asks a client for a body that it may not have. */
async function pulled(session: Pick<ServerSession, 'request'>, pull: unknown): Promise<unknown> {
  try {
    return (await session.request('', { metadata: { http: { pull } } as Metadata })).text;
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

const counts = { aborted: 0 };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Pieces without an end, each after a pause. */
function endless(signal: AbortSignal, piece: string): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(piece);
  signal.addEventListener('abort', () => counts.aborted++);
  return new ReadableStream({
    async pull(controller) {
      await pause(2);
      controller.enqueue(bytes);
    },
  });
}

/** A web application. */
async function web(request: Request, context: FetchContext): Promise<Response> {
  const { method, headers, signal } = request;
  const { pathname } = new URL(request.url);
  switch (pathname) {
    case '/echo':
      return Response.json({ method, headers: Object.fromEntries(headers), body: await request.text() });
    case '/size':
      return new Response(String((await request.arrayBuffer()).byteLength));
    case '/unread':
      return new Response('too much', { status: 413 });
    case '/endless':
      return new Response(endless(signal, 'x'.repeat(100)), { headers: { 'content-type': 'text/plain' } });
    case '/silent':
      await new Promise((_, reject) => signal.addEventListener('abort', reject));
      break;
    case '/falls-silent': {
      const first = new TextEncoder().encode('one');
      return new Response(new ReadableStream({ start: (controller) => controller.enqueue(first) }));
    }
    case '/kept': {
      context.keep({ name: 'letters' });
      const events = ['a', 'b', 'c', 'd'].map((letter) => `data: ${letter}\n\n`).join('');
      return new Response(events, { headers: { 'content-type': 'text/event-stream' } });
    }
  }
  return new Response('not here', { status: 404, headers: { 'x-why': 'caf\u00e9' } });
}

const addresses = {
  control: await serve({
    async onRequest(request, { session }) {
      if (request.text === '') return '';
      const given = request.json<{ do: string; id?: unknown }>();
      if (given.do === 'pull') return JSON.stringify(await pulled(session, given.id));
      return JSON.stringify((await commands[given.do]?.(given as never)) ?? null);
    },
  }),
  gateway: await serve({ onRequest: createOpenAIGateway({ baseUrl: `${upstream.origin}/v1` }) }),
  web: await serve({ onFetch: web }),
  onFetch: await serve({ onFetch: forwardTo(upstream.origin) }),
  api: upstream.origin,
  openai: openai.baseUrl,
};
console.log(JSON.stringify(addresses));
