import type { Message, Part, RequestContext } from '@parlance/protocol';
import { RequestError } from '@parlance/protocol';
import { createUIMessageStream, RetryError, type UIMessageChunk } from 'ai';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { modelErrorOf } from './failure.js';
import { chatHandler } from './handler.js';
import { isChatRequest } from './request.js';

/** The handler with requests and models that misbehave, without sockets. */

afterEach(() => {
  vi.useRealTimers();
});

const streamOf = (chunks: readonly UIMessageChunk[]) =>
  new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });

const QUESTION = { id: '1', role: 'user', parts: [{ type: 'text', text: 'hello' }] };
const ENVELOPE = { id: 'chat', trigger: 'submit-message', messages: [QUESTION] };

function contextOf(metadata: object = { ai_chat: {} }, signal = new AbortController().signal) {
  const kept: unknown[] = [];
  const context = {
    session: { id: 'session' },
    metadata,
    signal,
    runToCompletion() {},
    setMetadata() {},
    setBatch() {},
    keep: (options: unknown) => kept.push(options),
  } as unknown as RequestContext;
  return { context, kept };
}

const requestOf = (body: unknown) => ({ json: () => body }) as Message;

async function run(handler: ReturnType<typeof chatHandler>, body: unknown, context = contextOf().context) {
  const parts: Part[] = [];
  for await (const part of handler(requestOf(body), context) as AsyncIterable<Part>) parts.push(part);
  return parts;
}

async function* readFrom(chunks: UIMessageChunk[]) {
  yield* chunks;
}

describe('chatHandler', () => {
  const chunks: UIMessageChunk[] = [{ type: 'start', messageId: 'm' }, { type: 'finish' }];
  const handler = chatHandler(async function* () {
    yield* chunks;
  });

  it('keeps its answer under the ID of the chat, and yields chunks', async () => {
    const { context, kept } = contextOf();
    const parts = await run(handler, ENVELOPE, context);
    expect(parts).toEqual(chunks.map((json) => ({ json })));
    expect(kept).toEqual([{ name: 'chat:chat' }]);
  });

  it.each([
    ['no object', 'hello'],
    ['no ID', { ...ENVELOPE, id: undefined }],
    ['an ID that is too long', { ...ENVELOPE, id: 'x'.repeat(124) }],
    ['an ID without UTF-8', { ...ENVELOPE, id: '\ud800' }],
    ['another trigger', { ...ENVELOPE, trigger: 'resume-stream' }],
    ['a body that is a list', { ...ENVELOPE, body: [] }],
    ['a message ID that is a number', { ...ENVELOPE, messageId: 1 }],
    ['messages that are no list', { ...ENVELOPE, messages: {} }],
    ['a message without parts', { ...ENVELOPE, messages: [{ ...QUESTION, parts: undefined }] }],
    ['a part without a type', { ...ENVELOPE, messages: [{ ...QUESTION, parts: [{}] }] }],
    ['another role', { ...ENVELOPE, messages: [{ ...QUESTION, role: 'tool' }] }],
    ['messages of the prototype', JSON.parse('{"__proto__":{"messages":[]},"id":"","trigger":""}')],
  ])('refuses %s', async (_name, body) => {
    await expect(run(handler, body)).rejects.toMatchObject({ code: 'bad_request' });
  });

  it('takes an ID of 123 bytes, and headers that are valid', async () => {
    await expect(run(handler, { ...ENVELOPE, id: 'x'.repeat(123) })).resolves.toHaveLength(2);
    const { context } = contextOf({ ai_chat: { headers: { 'a b': 'c' } } });
    await expect(run(handler, ENVELOPE, context)).rejects.toMatchObject({ code: 'bad_request' });
  });

  it('leaves other requests to another handler, if there is one', async () => {
    const { context } = contextOf({});
    await expect(run(handler, ENVELOPE, context)).rejects.toMatchObject({ code: 'bad_request' });
    const both = chatHandler(() => [] as never, { otherwise: () => 'other' });
    expect(both(requestOf('hello'), context)).toBe('other');
    expect([isChatRequest({}), isChatRequest({ ai_chat: 'x' }), isChatRequest({ ai_chat: {} })]).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('begins with the message that it continues', async () => {
    const message = { ...QUESTION, role: 'assistant' };
    const [first] = await run(handler, { ...ENVELOPE, messages: [QUESTION, message] });
    expect(first).toEqual({ json: { type: 'parlance.continuation', message } });
  });

  it.each([
    ['an async generator', async (chunks: UIMessageChunk[]) => readFrom(chunks)],
    [
      'createUIMessageStream',
      async (chunks: UIMessageChunk[]) =>
        createUIMessageStream({ execute: ({ writer }) => writer.merge(streamOf(chunks)) }),
    ],
  ])('calls onFinish for a stream of the application as well: %s', async (_name, make) => {
    const text: UIMessageChunk[] = [
      { type: 'start' },
      { type: 'text-start', id: '1' },
      { type: 'text-delta', id: '1', delta: 'saved' },
      { type: 'text-end', id: '1' },
      { type: 'finish' },
    ];
    const saved: unknown[] = [];
    const saving = chatHandler(async () => (await make(text)) as ReadableStream<UIMessageChunk>, {
      stream: ({ id }) => ({
        onFinish: ({ messages, isAborted }) => void saved.push([id, messages.length, isAborted]),
      }),
    });
    const parts = (await run(saving, ENVELOPE)) as unknown as { json: UIMessageChunk }[];
    expect(parts.map(({ json }) => json.type)).toEqual(text.map(({ type }) => type));
    expect(saved).toEqual([['chat', 2, false]]);
    // The ID with which the message is saved is the one that the page has.
    expect(parts[0]?.json).toHaveProperty('messageId', expect.any(String));
  });

  it('fails if the application returns no stream', async () => {
    for (const value of [undefined, null, 'text', { text: 'x' }]) {
      await expect(
        run(
          chatHandler(() => value as never),
          ENVELOPE,
        ),
      ).rejects.toMatchObject({ code: 'invalid_argument' });
    }
  });

  it('passes on what the application throws, and names what its model fails with', async () => {
    const bug = new TypeError('a bug');
    const thrown = (error: unknown) =>
      chatHandler(() => {
        throw error;
      });
    await expect(run(thrown(bug), ENVELOPE)).rejects.toBe(bug);
    const busy = Object.assign(new Error('busy'), { statusCode: 429 });
    await expect(run(thrown(busy), ENVELOPE)).rejects.toMatchObject({ code: 'rate_limited' });
    const broken = chatHandler(async function* (): AsyncGenerator<UIMessageChunk> {
      yield { type: 'start' };
      throw bug;
    });
    await expect(run(broken, ENVELOPE)).rejects.toMatchObject({ code: 'model_failed', cause: bug });
    const told = chatHandler(async function* (): AsyncGenerator<UIMessageChunk> {
      yield { type: 'error', errorText: 'of the application' };
    });
    expect(await run(told, ENVELOPE)).toEqual([{ json: { type: 'error', errorText: 'of the application' } }]);
  });

  it.each([{ keep: { name: 'mine' } }, { keep: 'yes' }, { streams: {} }])(
    'refuses the options %j',
    (options) => {
      expect(() => chatHandler(() => [] as never, options as never)).toThrow(
        expect.objectContaining({ code: 'invalid_option' }),
      );
    },
  );

  it('reads the rest of a stopped answer, and leaves a model that does not heed the stop', async () => {
    vi.useFakeTimers();
    const aborter = new AbortController();
    const seen: unknown[] = [];
    let onCancel = (_reason: unknown) => {};
    const cancelled = new Promise((resolve) => {
      onCancel = resolve;
    });
    const deaf = chatHandler(({ signal }) => {
      signal.addEventListener('abort', () => seen.push(signal.reason.name));
      return new ReadableStream<UIMessageChunk>({
        start: (controller) => controller.enqueue({ type: 'start' }),
        cancel: onCancel,
      });
    });
    const { context } = contextOf(undefined, aborter.signal);
    const parts = (deaf(requestOf(ENVELOPE), context) as AsyncIterable<Part>)[Symbol.asyncIterator]();
    await parts.next();
    aborter.abort(new Error('stopped'));
    const left = parts.return?.();
    await vi.advanceTimersByTimeAsync(4_999);
    await expect(Promise.race([cancelled, Promise.resolve('waits')])).resolves.toBe('waits');
    await vi.advanceTimersByTimeAsync(1);
    await left;
    await cancelled;
    expect(seen).toEqual(['AbortError']);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('the failure of a model', () => {
  const apiError = (statusCode: number, responseHeaders?: object) =>
    Object.assign(new Error('sk-secret'), { statusCode, responseHeaders });

  it.each([
    [apiError(429, { 'retry-after': '2' }), { code: 'rate_limited', retryable: true, retryAfterMs: 2_000 }],
    [apiError(500), { code: 'upstream_status', retryable: true, data: { status: 500 } }],
    [apiError(400), { code: 'upstream_status', retryable: false, data: { status: 400 } }],
    [apiError(200), { code: 'model_failed' }],
    [new Error('sk-secret'), { code: 'model_failed' }],
    ['sk-secret', { code: 'model_failed' }],
    [new RequestError('mine', 'as it is'), { code: 'mine', message: 'as it is' }],
    [
      new RetryError({ message: 'x', reason: 'maxRetriesExceeded', errors: [apiError(500), apiError(429)] }),
      { code: 'rate_limited' },
    ],
  ])('has a code, and does not quote the provider: %s', (error, expected) => {
    const failure = modelErrorOf(error);
    expect(failure).toMatchObject(expected);
    expect(failure.message).not.toMatch('sk-secret');
  });
});
