import { type ClientSession, connect } from '@parlance/client';
import { createServer, type ServerSession } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import WebSocket from 'ws';
import { type Answer, Sight, type Upstream } from './upstream.js';

/** The ways to an API: directly, and over a session. */

export const THROUGH = ['gateway', 'gateway with fetch', 'onFetch', 'onFetch of a client'] as const;
export type Through = (typeof THROUGH)[number];
export type Way = 'direct' | Through;

export interface Ways extends AsyncDisposable {
  readonly fetchOf: (way: Way) => typeof fetch;
  readonly originOf: (way: Way) => string;
}

/** Answers each request as an API does. */
export const forwardTo =
  (origin: string) =>
  async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    const { method, headers, signal } = request;
    // A buffer cannot be sent again after a redirect by Node 20.
    const body = await request.blob();
    return await fetch(`${origin}${pathname}${search}`, {
      method,
      headers,
      signal,
      ...(body.size > 0 && { body }),
    });
  };

export async function openWays(upstream: Upstream): Promise<Ways> {
  const { origin } = upstream;
  const baseUrl = `${origin}/v1`;
  const forward = forwardTo(origin);
  const open: AsyncDisposable[] = [];
  const served = async (options: Parameters<typeof createServer>[0], more = {}): Promise<ClientSession> => {
    const server = createServer({ onError: () => {}, ...options });
    open.push(server);
    const { url } = await server.listen();
    const session = await connect(url, { WebSocket, onError: () => {}, ...more });
    open.push(session);
    return session;
  };
  const gateway = await served({ onRequest: createOpenAIGateway({ baseUrl }) });
  const withFetch = await served({ onRequest: createOpenAIGateway({ baseUrl, fetch }) });
  const onFetch = await served({ onFetch: forward });
  const ofServer = await new Promise<ServerSession>((resolve, reject) => {
    served({ onSession: (session) => resolve(session) }, { onFetch: forward }).catch(reject);
  });
  const fetches: Readonly<Record<Way, typeof fetch>> = {
    direct: fetch,
    gateway: gateway.fetch,
    'gateway with fetch': withFetch.fetch,
    onFetch: onFetch.fetch,
    'onFetch of a client': ofServer.fetch,
  };
  return {
    fetchOf: (way) => fetches[way],
    originOf: (way) => (way === 'direct' ? origin : 'http://session'),
    async [Symbol.asyncDispose]() {
      for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
    },
  };
}

/** The view of a client. */
export interface Observed {
  /** `undefined` if there was no response. */
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** In Latin-1, so that each byte is a character. */
  readonly body: string;
  /** The body, or the whole call, has failed. */
  readonly failed: boolean;
  /** Pieces that the client had not seen before the upstream continued. */
  readonly heldBack: readonly string[];
  /** Requests that the upstream got. */
  readonly asked: number;
}

/** Headers that say something about the body or the answer. */
export const COUNT =
  /^(?:content-type|content-range|content-disposition|location|retry-after|retry-after-ms|x-should-retry|x-request-id|x-ratelimit-.*|openai-.*)$/;

export interface Asking {
  /** @default POST */
  readonly method?: string;
  /** @default /v1/chat/completions */
  readonly path?: string;
  /** @default JSON */
  readonly headers?: Readonly<Record<string, string>>;
  /** @default a request for a stream; none for GET, HEAD and DELETE */
  readonly body?: (() => BodyInit) | undefined;
}

export const CHAT = '{"model":"m","stream":true,"messages":[]}';
const JSON_TYPE = { 'content-type': 'application/json' };

export async function observe(
  ways: Ways,
  way: Way,
  upstream: Upstream,
  asking: Asking,
  answer: Answer,
): Promise<Observed> {
  const sight = new Sight();
  upstream.begin(answer, sight);
  const { method = 'POST', path = '/v1/chat/completions' } = asking;
  const hasBody = asking.body !== undefined || method === 'POST';
  const init: RequestInit = {
    method,
    headers: asking.headers ?? (hasBody ? JSON_TYPE : {}),
    ...(hasBody && { body: asking.body?.() ?? CHAT }),
  };
  const seen = { status: undefined as number | undefined, headers: {}, body: '', failed: false };
  try {
    const response = await ways.fetchOf(way)(`${ways.originOf(way)}${path}`, init);
    seen.status = response.status;
    seen.headers = Object.fromEntries([...response.headers].filter(([name]) => COUNT.test(name)));
    sight.report('head');
    for await (const chunk of response.body ?? []) {
      const text = Buffer.from(chunk).toString('latin1');
      seen.body += text;
      sight.report(text);
    }
  } catch {
    seen.failed = true;
  }
  sight.end();
  return { ...seen, heldBack: sight.heldBack, asked: upstream.asked };
}
