import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import { createServer, keptReplies, type ServerOptions, type ServerSession } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import WebSocket from 'ws';

/** A server in front of an invented upstream, and clients that do, every second, something of each kind. */

export interface Load {
  /** Host and port of the metrics. */
  readonly target: string;
  close(): Promise<void>;
}

const AGENT = { extensions: { agents: true } } as const;
/** So that a PING is answered within the run. */
const PING_INTERVAL_MS = 10_000;

let asked = 0;
const upstream: typeof fetch = async () => {
  asked++;
  if (asked % 5 === 1) return new Response('{}', { status: 503, headers: { 'retry-after': '0' } });
  return Response.json({ id: 'x', usage: { prompt_tokens: 20, completion_tokens: 5 } });
};

const gateway = createOpenAIGateway({
  baseUrl: 'http://upstream.invalid/v1',
  maxRetryDelayMs: 1,
  fetch: upstream,
});

const OPTIONS: ServerOptions = {
  limits: { sessionsPerMinutePerIp: Infinity, connectionsPerMinutePerIp: Infinity, sessionsPerPrincipal: 8 },
  timers: { pingIntervalMs: PING_INTERVAL_MS, closingTimeoutMs: 100 },
  authenticate: ({ token }) => {
    if (token === undefined) return null;
    return token === 'lost' ? { principal: 'lost' } : { principal: 'load', agentId: token };
  },
  features: [keptReplies({ keep: (request) => request.text === 'keep' })],
  async onSession(session) {
    for await (const _message of session);
  },
  onRequest(request, context) {
    if (request.text === 'fail') throw new Error('as asked');
    return request.text.startsWith('{') ? gateway(request, context) : `about ${request.text}`;
  },
  onError() {},
};

const sockets: WebSocket[] = [];

class KnownWebSocket extends WebSocket {
  constructor(address: string, protocols?: string | string[], options?: WebSocket.ClientOptions) {
    super(address, protocols, options);
    sockets.push(this);
  }
}

export async function loadEveryMetric(): Promise<Load> {
  const server = createServer(OPTIONS);
  const { url } = await server.listen();
  const { host, port } = await server.listenMetrics();
  const dial = (token: string) => connect(url, { ...AGENT, WebSocket: KnownWebSocket, token, onError() {} });
  const a = await dial('a');
  const b = await connect(url, {
    ...AGENT,
    WebSocket,
    token: 'b',
    onRequest: (request) => request.text,
    onError() {},
  });
  const steps = (round: number) =>
    oneRound({ a, url, dial, round, server: () => [...server.sessions.values()] });
  let round = 0;
  let isBusy = false;
  const timer = setInterval(() => {
    if (isBusy) return;
    isBusy = true;
    steps(round++).finally(() => {
      isBusy = false;
    });
  }, 500);
  return {
    target: `${host}:${port}`,
    async close() {
      clearInterval(timer);
      await Promise.allSettled([a.close(), b.close()]);
      await server.close();
    },
  };
}

interface Round {
  readonly a: ClientSession;
  readonly url: string;
  readonly dial: (token: string) => Promise<ClientSession>;
  readonly round: number;
  readonly server: () => readonly ServerSession[];
}

async function oneRound({ a, url, dial, round, server }: Round): Promise<void> {
  const data = new Float32Array(256);
  const each: readonly (() => Promise<unknown>)[] = [
    () => a.send('a message'),
    () => a.request('a question'),
    () => a.request('keep'),
    () => a.request('fail'),
    () => a.request('x', { to: 'b' }),
    () => a.request('x', { to: 'unknown' }),
    () => a.request({ model: 'gpt-4o', messages: [] }),
    () => a.sendTensor({ data, shape: [256], dtype: 'float32', payloadType: 'hidden_state' }),
    // Refused: without a token, then beyond a limit.
    () => connect(url, { WebSocket, reconnect: false, onError() {} }),
    () => crowd(dial),
    // A session that comes back, and one that cannot.
    async () => {
      if (round % 4 === 0) sockets[0]?.terminate();
    },
    async () => {
      if (round % 4 !== 2) return;
      const lost = await connect(url, { ...LATE, WebSocket: KnownWebSocket, token: 'lost', onError() {} });
      await lost.request('a question');
      sockets.at(-1)?.terminate();
      void server()
        .find(({ principal }) => principal === 'lost')
        ?.close();
      await pause(1_500);
      await lost.close();
    },
  ];
  for (const step of each) await step().catch(() => {});
}

/** Comes back when its session is gone. */
const LATE = { reconnect: { minDelayMs: 800, maxDelayMs: 900 } };

async function crowd(dial: (token: string) => Promise<ClientSession>): Promise<void> {
  const all = await Promise.allSettled(Array.from({ length: 8 }, (_, i) => dial(`crowd-${i}`)));
  for (const one of all) if (one.status === 'fulfilled') await one.value.close();
}
