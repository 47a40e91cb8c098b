import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/**
 * An OpenAI-compatible API on loopback that replays answers of the real one. The model that a request names
 * decides the answer; the same request always gets the same bytes.
 */
export interface OpenAIUpstream extends AsyncDisposable {
  /** Including the version. */
  readonly baseUrl: string;
  /** All requests, in order. */
  readonly requests: UpstreamRecord[];
  /** Exchanges that are neither answered completely nor closed by the client. */
  readonly openExchanges: number;
  /** TCP connections so far. */
  readonly connections: number;
  /** Closes every connection and stops listening. */
  stop(): Promise<void>;
}

export interface UpstreamRecord {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  /** `performance.now()` at which the client closed its connection before the answer was complete. */
  closedAt: number | undefined;
}

interface ChatRequest {
  readonly model: string;
  readonly stream?: boolean;
  readonly tools?: unknown[];
  readonly stream_options?: { readonly include_usage?: boolean };
  readonly input?: string | string[];
  readonly encoding_format?: string;
}

/** Milliseconds between two events. */
const PACE_MS = 2;
const TEXT =
  'Tokens travel — Grüße, 世界! 👩‍👩‍👧 — over one session: "quoted", back\\slashed,\nand data: like lines.';
export const RATE_LIMIT_HEADERS = {
  'x-request-id': 'req_0123456789',
  'x-ratelimit-limit-requests': '10000',
  'x-ratelimit-remaining-requests': '9999',
  'x-ratelimit-reset-tokens': '6ms',
  'openai-processing-ms': '42',
};

export async function startOpenAIUpstream(port = 0): Promise<OpenAIUpstream> {
  const requests: UpstreamRecord[] = [];
  let openExchanges = 0;
  let connections = 0;
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const record: UpstreamRecord = {
      path: request.url ?? '',
      headers: request.headers,
      body,
      closedAt: undefined,
    };
    requests.push(record);
    openExchanges++;
    response.on('close', () => {
      openExchanges--;
      if (!response.writableFinished) record.closedAt = performance.now();
    });
    try {
      await reply(request, JSON.parse(body || '{}') as ChatRequest, response, requests);
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
  server.on('connection', () => connections++);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    get openExchanges() {
      return openExchanges;
    },
    get connections() {
      return connections;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function reply(
  request: IncomingMessage,
  body: ChatRequest,
  response: ServerResponse,
  requests: readonly UpstreamRecord[],
): Promise<void> {
  const { model } = body;
  if (model?.startsWith('status-')) return replyStatus(Number(model.slice('status-'.length)), response);
  switch (model) {
    case 'twice-busy':
      if (requests.filter((each) => each.body.includes(model)).length > 2) break;
      response.writeHead(503, { 'retry-after-ms': '5' }).end('{"error":{"message":"busy"}}');
      return;
    case 'silent':
      return;
    case 'hangs-up':
      request.socket.resetAndDestroy();
      return;
    case 'no-http':
      request.socket.end('\u0000\u0001 this is not HTTP\r\n\r\n');
      return;
    case 'no-text':
      json(response, Buffer.from([0x7b, 0xff, 0xfe, 0x7d]));
      return;
    case 'no-json':
      json(response, '<html>It works!</html>');
      return;
    case 'elsewhere':
      response.writeHead(307, { location: 'http://127.0.0.1:1/v1/chat/completions' }).end();
      return;
    case 'tells-the-key':
      response.setHeader('x-request-id', String(request.headers.authorization));
      if (body.stream)
        return stream(response, contentEvents(body, `It is ${request.headers.authorization}.`));
      json(response, JSON.stringify({ error: { message: `wrong: ${request.headers.authorization}` } }), 401);
      return;
  }
  if (request.url?.startsWith('/v1/responses')) {
    return body.stream ? stream(response, responseEvents(body)) : json(response, pretty(wholeResponse(body)));
  }
  if (request.url?.startsWith('/v1/embeddings')) return json(response, JSON.stringify(embeddings(body)));
  const text = model === 'long' ? TEXT.repeat(8) : TEXT;
  const events = body.tools === undefined ? contentEvents(body, text) : toolEvents(body);
  return body.stream ? stream(response, misbehaving(body, events)) : json(response, pretty(completion(body)));
}

// --- content of answers

type Json = Record<string, unknown>;

const usage = {
  prompt_tokens: 19,
  completion_tokens: 31,
  total_tokens: 50,
  prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
};

function completion({ model, tools }: ChatRequest): Json {
  const message =
    tools === undefined
      ? { role: 'assistant', content: TEXT, refusal: null, annotations: [] }
      : {
          role: 'assistant',
          content: null,
          refusal: null,
          tool_calls: [toolCall('{"city":"Wien","days":3}')],
        };
  return {
    id: 'chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT',
    object: 'chat.completion',
    created: 1741569952,
    model,
    choices: [
      { index: 0, message, logprobs: null, finish_reason: tools === undefined ? 'stop' : 'tool_calls' },
    ],
    usage,
    service_tier: 'default',
    system_fingerprint: 'fp_44709d6fcb',
  };
}

function toolCall(json: string): Json {
  return { id: 'call_abc123', type: 'function', function: { name: 'get_weather', arguments: json } };
}

function chunk({ model }: ChatRequest, delta: Json, finish: string | null = null): string {
  return JSON.stringify({
    id: 'chatcmpl-123',
    object: 'chat.completion.chunk',
    created: 1694268190,
    model,
    service_tier: 'default',
    system_fingerprint: 'fp_44709d6fcb',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  });
}

function* contentEvents(request: ChatRequest, text: string): Generator<Event> {
  yield { data: chunk(request, { role: 'assistant', content: '', refusal: null }) };
  for (const piece of text.match(/\s*\S{1,6}/gu) ?? []) yield { data: chunk(request, { content: piece }) };
  yield { data: chunk(request, {}, 'stop') };
  if (request.stream_options?.include_usage) {
    yield { data: JSON.stringify({ ...JSON.parse(chunk(request, {})), choices: [], usage }) };
  }
  yield { data: '[DONE]' };
}

function* toolEvents(request: ChatRequest): Generator<Event> {
  const { function: call, ...rest } = toolCall('');
  yield {
    data: chunk(request, {
      role: 'assistant',
      content: null,
      tool_calls: [{ index: 0, ...rest, function: call }],
    }),
  };
  for (const piece of ['{"ci', 'ty":"Wi', 'en","da', 'ys":3}']) {
    yield { data: chunk(request, { tool_calls: [{ index: 0, function: { arguments: piece } }] }) };
  }
  yield { data: chunk(request, {}, 'tool_calls') };
  yield { data: '[DONE]' };
}

function wholeResponse({ model }: ChatRequest, status = 'completed'): Json {
  const isDone = status === 'completed';
  return {
    id: 'resp_67ccd2bed1ec8190b14f964abc054267',
    object: 'response',
    created_at: 1741476542,
    status,
    error: null,
    model,
    output: isDone
      ? [
          {
            type: 'message',
            id: 'msg_67ccd2bf17f0819081ff3bb2cf6508e6',
            status,
            role: 'assistant',
            content: [{ type: 'output_text', text: TEXT, annotations: [] }],
          },
        ]
      : [],
    parallel_tool_calls: true,
    tools: [],
    usage: isDone ? { input_tokens: 36, output_tokens: 87, total_tokens: 123 } : null,
    metadata: {},
  };
}

function* responseEvents(request: ChatRequest): Generator<Event> {
  let sequence = 0;
  const event = (type: string, fields: Json): Event => ({
    event: type,
    data: JSON.stringify({ type, sequence_number: sequence++, ...fields }),
  });
  yield event('response.created', { response: wholeResponse(request, 'in_progress') });
  for (const delta of TEXT.match(/\s*\S{1,9}/gu) ?? []) {
    yield event('response.output_text.delta', {
      item_id: 'msg_67ccd2bf17f0819081ff3bb2cf6508e6',
      output_index: 0,
      content_index: 0,
      delta,
    });
  }
  yield event('response.completed', { response: wholeResponse(request) });
}

function embeddings({ model, input, encoding_format: format }: ChatRequest): Json {
  const inputs = typeof input === 'string' ? [input] : (input ?? []);
  const vector = (seed: number) =>
    Float32Array.from({ length: 1536 }, (_, i) => Math.sin(seed * 31 + i) / 40);
  return {
    object: 'list',
    data: inputs.map((_text, index) => ({
      object: 'embedding',
      index,
      embedding:
        format === 'base64'
          ? Buffer.from(vector(index).buffer).toString('base64')
          : Array.from(vector(index)),
    })),
    model,
    usage: { prompt_tokens: 8 * inputs.length, total_tokens: 8 * inputs.length },
  };
}

function replyStatus(status: number, response: ServerResponse): void {
  const errors: Readonly<Record<number, Json>> = {
    400: {
      message: 'We could not parse the JSON body.',
      type: 'invalid_request_error',
      param: null,
      code: null,
    },
    401: {
      message: 'Incorrect API key provided.',
      type: 'invalid_request_error',
      param: null,
      code: 'invalid_api_key',
    },
    429: { message: 'Rate limit reached.', type: 'requests', param: null, code: 'rate_limit_exceeded' },
    500: { message: 'The server had an error.', type: 'server_error', param: null, code: null },
  };
  if (status === 429) response.setHeader('retry-after', '20');
  json(response, pretty({ error: errors[status] ?? { message: 'odd' } }), status);
}

// --- form of answers

interface Event {
  readonly data: string;
  readonly event?: string;
}

/** Fails after the first events. */
async function* misbehaving({ model }: ChatRequest, events: Iterable<Event>): AsyncGenerator<Event | Buffer> {
  if (model === 'slow') await new Promise((resolve) => setTimeout(resolve, 300));
  let sent = 0;
  for (const event of events) {
    yield event;
    if (++sent < 4) continue;
    switch (model) {
      case 'error-in-stream':
        yield { data: '{"error":{"message":"The server had an error.","type":"server_error","code":null}}' };
        return;
      case 'dies-in-stream':
        yield Buffer.alloc(0);
        return;
      case 'falls-silent':
        await new Promise(() => {});
        return;
      case 'no-text-in-stream':
        yield Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0xfe, 0x0a, 0x0a]);
        return;
      case 'endless-line':
        for (;;) yield Buffer.from('data: '.padEnd(4096, 'x'));
      case 'endless':
        for (let i = 0; ; i++) yield { data: chunk({ model }, { content: ` ${i}` }) };
    }
  }
}

/** Splits the text in the middle of lines and characters, with a comment in between, as proxies do. */
async function stream(response: ServerResponse, events: Iterable<Event> | AsyncIterable<Event | Buffer>) {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...RATE_LIMIT_HEADERS });
  response.flushHeaders();
  let carry = Buffer.alloc(0);
  for await (const event of events) {
    if (response.closed) return;
    if (Buffer.isBuffer(event) && event.length === 0) {
      response.write(carry);
      await pause(20);
      response.socket?.resetAndDestroy();
      return;
    }
    const text = Buffer.isBuffer(event) ? event : Buffer.from(textOf(event));
    const bytes = Buffer.concat([carry, text]);
    const cut = Math.max(0, bytes.length - 7);
    const hasRoom = response.write(bytes.subarray(0, cut));
    carry = bytes.subarray(cut);
    if (!hasRoom) await Promise.race([once(response, 'drain'), once(response, 'close')]);
    await pause(PACE_MS);
  }
  response.end(carry);
}

function textOf({ event, data }: Event): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${data}\n\n`;
}

function json(response: ServerResponse, body: string | Buffer, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json', ...RATE_LIMIT_HEADERS });
  response.end(body);
}

/** Formatted like the real API's JSON, so that a body that was parsed and serialized again differs. */
function pretty(value: Json): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

const once = (emitter: ServerResponse, name: string) => new Promise((resolve) => emitter.once(name, resolve));
