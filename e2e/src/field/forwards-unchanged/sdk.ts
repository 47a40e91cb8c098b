import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { type Answer, Sight, startUpstream, turn } from './upstream.js';
import { openWays, type Way } from './ways.js';

/** The same calls of the packages of OpenAI and Anthropic, directly and over a session. */

export type OpenAIClass = new (options: ConstructorParameters<typeof OpenAI>[0]) => OpenAI;
export type AnthropicClass = new (options: ConstructorParameters<typeof Anthropic>[0]) => Anthropic;

export interface ComparedCall {
  readonly call: string;
  readonly way: Way;
  /** The results of the application, as JSON, and how many requests the API got. */
  readonly got: string;
  readonly direct: string;
}

const EVENTS = { 'content-type': 'text/event-stream' };
const JSON_TYPE = { 'content-type': 'application/json' };
const chunk = (content: string, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}`;
const ERROR = JSON.stringify({
  type: 'error',
  error: { type: 'overloaded_error', message: 'no', code: 'busy' },
});

const whole =
  (status: number, headers: Record<string, string>, body: string | Uint8Array): Answer =>
  async ({ body: sent, response }) => {
    await sent();
    response.writeHead(status, headers).end(body);
  };
const cut =
  (headers: Record<string, string>, body: string): Answer =>
  async ({ body: sent, response }) => {
    await sent();
    response.writeHead(200, headers);
    for (const byte of Buffer.from(body)) {
      response.write(Uint8Array.of(byte));
      await turn();
    }
    response.end();
  };

/** Streams of chat completions. */
export const ANSWERS: Readonly<Record<string, Answer>> = {
  ...Object.fromEntries(
    ['\n\n', '\n', '', '\r\r', '\r\n\r\n', '\n\ndata: [DONE]\n\n'].map((end) => [
      `a stream that ends with ${JSON.stringify(end)}`,
      whole(200, EVENTS, `${chunk('Hi')}\n\n${chunk('', 'stop')}${end}`),
    ]),
  ),
  'a stream in segments of one byte': cut(
    EVENTS,
    `: hello\n\n${chunk('Grüße 👋')}\n\n${chunk('', 'stop')}\n\ndata: [DONE]\n\n`,
  ),
  'a stream with a label in capitals': whole(
    200,
    { 'content-type': 'Text/Event-Stream' },
    `${chunk('Hi', 'stop')}\n\n`,
  ),
  'a stream without a label': whole(200, {}, `${chunk('Hi')}\n\n${chunk('', 'stop')}\n\n`),
  'a stream whose bytes are not UTF-8': whole(
    200,
    EVENTS,
    Buffer.from(`${chunk('\xf0\x9f')}\n\n${chunk('', 'stop')}\n\n`, 'latin1'),
  ),
  'a stream with an error': whole(200, EVENTS, `${chunk('Hi')}\n\ndata: ${ERROR}\n\n`),
  'a stream that breaks': async ({ body, response, socket, seen }) => {
    await body();
    response.writeHead(200, EVENTS);
    response.write(`${chunk('Hi')}\n\n`);
    await seen('Hi');
    socket.destroy();
  },
  'a large event': whole(200, EVENTS, `${chunk('x'.repeat(9_000_000), 'stop')}\n\n`),
  ...Object.fromEntries(
    [400, 401, 404, 422, 429, 500, 529].flatMap((status) => [
      [`status ${status}`, whole(status, { ...JSON_TYPE, 'retry-after-ms': '1' }, ERROR)],
      [`status ${status} as events`, whole(status, { ...EVENTS, 'retry-after-ms': '1' }, ERROR)],
    ]),
  ),
  'status 429 that is not to be repeated': whole(429, { ...JSON_TYPE, 'x-should-retry': 'false' }, ERROR),
  'an overload that passes': async ({ body, response, before }) => {
    await body();
    if (before < 2) response.writeHead(503, { ...JSON_TYPE, 'retry-after-ms': '1' }).end(ERROR);
    else response.writeHead(200, EVENTS).end(`${chunk('Hi', 'stop')}\n\n`);
  },
  'a redirect': async ({ body, request, response }) => {
    await body();
    if (request.url?.endsWith('/') === true)
      response.writeHead(200, EVENTS).end(`${chunk('Hi', 'stop')}\n\n`);
    else response.writeHead(308, { location: `${request.url}/` }).end();
  },
};

const message = (type: string, more: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const MESSAGE = [
  message('message_start', {
    message: {
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    },
  }),
  message('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  'event: ping\ndata: {"type": "ping"}\n\n',
  message('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Grüße 👋' } }),
  message('content_block_stop', { index: 0 }),
  message('message_delta', {
    delta: { stop_reason: 'end_turn', stop_sequence: null },
    usage: { output_tokens: 5 },
  }),
  message('message_stop', {}),
].join('');

/** Messages of the API of Anthropic. */
export const OF_ANTHROPIC: Readonly<Record<string, Answer>> = {
  'a message': whole(200, EVENTS, MESSAGE),
  'a message in segments of one byte': cut(EVENTS, MESSAGE),
  'a message without its last blank line': whole(200, EVENTS, MESSAGE.slice(0, -2)),
  'a message with CR LF': whole(200, EVENTS, MESSAGE.replaceAll('\n', '\r\n')),
  'a message that is overloaded midway': whole(
    200,
    EVENTS,
    `${MESSAGE.slice(0, 400)}\n\nevent: error\ndata: ${ERROR}\n\n`,
  ),
  'status 529 as events': whole(529, { ...EVENTS, 'retry-after-ms': '1' }, ERROR),
  'status 400': whole(400, JSON_TYPE, ERROR),
};

export async function compareSdks(OpenAI: OpenAIClass, Anthropic: AnthropicClass): Promise<ComparedCall[]> {
  await using upstream = await startUpstream();
  await using ways = await openWays(upstream);
  const common = { apiKey: 'unused', dangerouslyAllowBrowser: true, maxRetries: 2 };
  const compared: ComparedCall[] = [];
  const run = async (answer: Answer, ask: (report: (text: string) => void) => Promise<unknown>) => {
    const sight = new Sight();
    upstream.begin(answer, sight);
    const got = await ask((text) => sight.report(text)).then(
      (value) => ({ value }),
      (error: unknown) => failureOf(error),
    );
    sight.end();
    return JSON.stringify({ got, asked: upstream.asked, heldBack: sight.heldBack });
  };
  const compare = async (
    call: string,
    answer: Answer,
    among: readonly Way[],
    ask: (way: Way, report: (text: string) => void) => Promise<unknown>,
  ) => {
    const direct = await run(answer, (report) => ask('direct', report));
    for (const way of among)
      compared.push({ call, way, direct, got: await run(answer, (report) => ask(way, report)) });
  };
  for (const [call, answer] of Object.entries(ANSWERS)) {
    await compare(call, answer, ['gateway', 'onFetch', 'onFetch of a client'], async (way, report) => {
      const client = new OpenAI({ ...common, baseURL: `${ways.originOf(way)}/v1`, fetch: ways.fetchOf(way) });
      const stream = await client.chat.completions.create({ model: 'm', messages: [], stream: true });
      const items: unknown[] = [];
      for await (const item of stream) {
        items.push(item);
        report(JSON.stringify(item));
      }
      return items;
    });
  }
  for (const [call, answer] of Object.entries(OF_ANTHROPIC)) {
    // The gateway has the endpoints of OpenAI.
    await compare(`anthropic: ${call}`, answer, ['onFetch', 'onFetch of a client'], async (way) => {
      const client = new Anthropic({ ...common, baseURL: ways.originOf(way), fetch: ways.fetchOf(way) });
      return await client.messages
        .stream({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] })
        .finalMessage();
    });
  }
  return compared;
}

/** A failed call as an application sees it; a broken connection has other words over a session. */
function failureOf(error: unknown): object {
  const { name, status, message, code, type } = error as Record<string, unknown>;
  return status === undefined ? { failed: true } : { name, status, message, code, type };
}
