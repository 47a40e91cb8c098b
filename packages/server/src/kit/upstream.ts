import { ProtocolError } from '@parlance/protocol';

/** An imitation of an OpenAI-compatible API, for tests of what is built on the gateway. It answers what the test says. */
export interface FakeUpstream {
  /** For `createOpenAIGateway({ ...upstream.options })`: nothing leaves the process. */
  readonly options: { readonly baseUrl: string; readonly fetch: typeof globalThis.fetch };
  /** All requests, in order. */
  readonly requests: readonly UpstreamRequest[];
  /** Requests whose answer is neither complete nor abandoned. */
  readonly open: number;
  /** Answers the next request that has no answer yet; several calls answer several requests, in order. */
  answer(answer: FakeAnswer): void;
}

export interface UpstreamRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: Headers;
  /** JSON as a value, anything else as text. */
  readonly body: unknown;
  /** Aborts if the gateway closes the connection. */
  readonly signal: AbortSignal;
}

/** The answer to one request, as a chat completion; in events if the request has `stream: true`. */
export interface FakeAnswer {
  /** The words of the assistant; each string of a list is an event. @default '' */
  readonly text?: string | readonly string[] | undefined;
  /** Tools that the assistant calls. @default none */
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: unknown }[] | undefined;
  /** @default some numbers */
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | undefined;
  /** Answered in place of a completion. */
  readonly error?: { readonly status: number; readonly message?: string; readonly code?: string } | undefined;
  /** Answered in place of a completion, for other endpoints: JSON. */
  readonly json?: unknown;
  /** Milliseconds before the status. @default 0 */
  readonly delayMs?: number | undefined;
  /** Milliseconds before each event after the first. @default 0 */
  readonly paceMs?: number | undefined;
  /** The connection breaks after so many events. @default it does not */
  readonly breaksAfter?: number | undefined;
}

const BASE_URL = 'http://upstream.test/v1';
const USAGE = { prompt_tokens: 7, completion_tokens: 5 };

export function createFakeUpstream(): FakeUpstream {
  const requests: UpstreamRequest[] = [];
  const answers: FakeAnswer[] = [];
  const waiting: ((answer: FakeAnswer) => void)[] = [];
  let open = 0;

  const nextAnswer = (signal: AbortSignal): Promise<FakeAnswer> => {
    const ready = answers.shift();
    if (ready !== undefined) return Promise.resolve(ready);
    return new Promise((resolve, reject) => {
      waiting.push(resolve);
      signal.addEventListener('abort', () => {
        const at = waiting.indexOf(resolve);
        if (at >= 0) waiting.splice(at, 1);
        reject(signal.reason);
      });
    });
  };

  const respond = async (asked: UpstreamRequest): Promise<Response> => {
    const answer = await nextAnswer(asked.signal);
    await pass(answer.delayMs ?? 0, asked.signal);
    const { error, json } = answer;
    if (error !== undefined) {
      const { status, message = 'the upstream refuses', code = null } = error;
      return Response.json({ error: { message, type: 'fake_error', param: null, code } }, { status });
    }
    if (json !== undefined) return Response.json(json);
    const { model = 'fake', stream = false } = (asked.body ?? {}) as { model?: string; stream?: boolean };
    if (!stream) return Response.json(completion(model, answer));
    return new Response(
      eventsOf(model, answer, asked.signal, () => open--),
      {
        headers: { 'content-type': 'text/event-stream' },
      },
    );
  };

  const answerTo: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    const { pathname, search } = new URL(request.url);
    const text = await request.text();
    const asked: UpstreamRequest = {
      method: request.method,
      path: pathname.replace(/^\/v1/, '') + search,
      headers: request.headers,
      body: parse(text),
      signal: request.signal,
    };
    requests.push(asked);
    open++;
    let isStream = false;
    try {
      const response = await respond(asked);
      isStream = response.headers.get('content-type') === 'text/event-stream';
      return response;
    } finally {
      if (!isStream) open--;
    }
  };

  return {
    options: { baseUrl: BASE_URL, fetch: answerTo },
    requests,
    get open() {
      return open;
    },
    answer(answer) {
      const ask = waiting.shift();
      if (ask === undefined) answers.push(answer);
      else ask(answer);
    },
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const textsOf = ({ text = '' }: FakeAnswer) => (typeof text === 'string' ? [text] : text);

function callsOf({ toolCalls = [] }: FakeAnswer) {
  return toolCalls.map(({ name, arguments: given }, index) => ({
    index,
    id: `call_${index}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(given) },
  }));
}

function finishOf({ toolCalls = [] }: FakeAnswer): string {
  return toolCalls.length > 0 ? 'tool_calls' : 'stop';
}

function totals({ usage = USAGE }: FakeAnswer) {
  return { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens };
}

function completion(model: string, answer: FakeAnswer): object {
  const calls = callsOf(answer).map(({ index: _index, ...call }) => call);
  const content = textsOf(answer).join('');
  const message = { role: 'assistant', content, ...(calls.length > 0 && { tool_calls: calls }) };
  const choices = [{ index: 0, message, logprobs: null, finish_reason: finishOf(answer) }];
  return {
    id: 'chatcmpl-fake',
    object: 'chat.completion',
    created: 0,
    model,
    choices,
    usage: totals(answer),
  };
}

function* chunksOf(model: string, answer: FakeAnswer): Generator<object> {
  const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
    id: 'chatcmpl-fake',
    object: 'chat.completion.chunk',
    created: 0,
    model,
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    ...more,
  });
  yield chunk({ role: 'assistant', content: '' });
  for (const content of textsOf(answer)) yield chunk({ content });
  for (const call of callsOf(answer)) yield chunk({ tool_calls: [call] });
  yield chunk({}, finishOf(answer), { usage: totals(answer) });
}

/** @param onOver called once, when the stream is complete, broken or abandoned. */
function eventsOf(
  model: string,
  answer: FakeAnswer,
  signal: AbortSignal,
  onOver: () => void,
): ReadableStream<Uint8Array> {
  const { paceMs = 0, breaksAfter = Infinity } = answer;
  const chunks = chunksOf(model, answer);
  let sent = 0;
  let isOver = false;
  const over = (): void => {
    if (!isOver) onOver();
    isOver = true;
  };
  signal.addEventListener('abort', over, { once: true });
  return new ReadableStream(
    {
      async pull(controller) {
        if (sent > 0) await pass(paceMs, signal).catch(() => {});
        if (signal.aborted) return controller.error(signal.reason);
        if (sent++ >= breaksAfter) {
          over();
          return controller.error(new TypeError('terminated'));
        }
        const { done, value } = chunks.next();
        const data = done === true ? '[DONE]' : JSON.stringify(value);
        controller.enqueue(new TextEncoder().encode(`data: ${data}\n\n`));
        if (done !== true) return;
        over();
        controller.close();
      },
      cancel: over,
    },
    { highWaterMark: 0 },
  );
}

/** Waits, in the time of the process, which may be virtual. */
function pass(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.reject(signal.reason);
  if (ms <= 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        reject(signal.reason ?? new ProtocolError('cancelled', 'aborted'));
      },
      { once: true },
    );
  });
}
