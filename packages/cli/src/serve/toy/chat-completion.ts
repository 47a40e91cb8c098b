import { randomUUID } from 'node:crypto';
import {
  decodeHttpRequest,
  encodeHttpResponse,
  getEncoding,
  type HttpRequestHead,
  type Part,
  type RequestContext,
} from '@parlance/protocol';

/** The parts of an OpenAI-compatible API that a chat needs, for `session.fetch` to a server without an upstream. */

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly max_tokens?: number;
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
}

const PATH = '/chat/completions';

/** The HTTP head of a request; `undefined` if it was not sent by `session.fetch`. */
export function readHttpHead({ metadata }: RequestContext): HttpRequestHead | undefined {
  return decodeHttpRequest(metadata);
}

/** @throws {ApiError} if the request is not a chat completion. */
export function assertChatPath({ path, method }: HttpRequestHead): void {
  if (path.split('?', 1)[0]?.endsWith(PATH) && method === 'POST') return;
  throw new ApiError(404, `only POST …${PATH} is supported, not ${method} ${path}`);
}

/** An error in the shape of the API. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
  }
}

export function errorReply({ status, message }: ApiError, context: RequestContext): Part {
  setStatus(context, status, 'application/json');
  return JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code: null } });
}

/**
 * Makes a chat completion from pieces of text: whole, or as a stream of events if the request asks for one. If a process before
 * this one has said some of its parts, only the others are yielded.
 *
 * @param pieces the whole text, in the same pieces each time.
 */
export async function* completionReply(
  chat: ChatRequest,
  pieces: AsyncIterable<string> | Iterable<string>,
  context: RequestContext,
): AsyncGenerator<Part> {
  const { yielded } = context;
  const head = yielded[0] === undefined ? headOf(chat) : { ...headOf(chat), ...saidHead(yielded[0].text) };
  let text = '';
  if (chat.stream !== true) {
    for await (const piece of pieces) text += piece;
    setStatus(context, 200, 'application/json');
    const message = { role: 'assistant', content: text };
    yield JSON.stringify({
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
      usage: usageOf(chat, text),
    });
    return;
  }
  const chunk = (delta: object, finish: string | null = null) =>
    JSON.stringify({
      ...head,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
  let parts = 0;
  const isNew = () => ++parts > yielded.length;
  if (isNew()) {
    setStatus(context, 200, 'text/event-stream; charset=utf-8');
    yield chunk({ role: 'assistant', content: '' });
  }
  for await (const content of pieces) {
    text += content;
    if (isNew()) yield chunk({ content });
  }
  if (isNew()) yield chunk({}, 'stop');
  if (chat.stream_options?.include_usage === true && isNew()) {
    yield JSON.stringify({
      ...head,
      object: 'chat.completion.chunk',
      choices: [],
      usage: usageOf(chat, text),
    });
  }
  if (isNew()) yield '[DONE]';
}

const headOf = ({ model }: ChatRequest) => ({
  id: `chatcmpl-${randomUUID()}`,
  created: Math.floor(Date.now() / 1000),
  model,
});

/** The head that all parts of a stream have in common. */
function saidHead(part: string): object {
  const { id, created } = JSON.parse(part) as { readonly id: string; readonly created: number };
  return { id, created };
}

function setStatus(context: RequestContext, status: number, type: string): void {
  context.setMetadata(encodeHttpResponse({ status, headers: new Map([['content-type', type]]) }));
}

/** UTF-16 units whose tokens are counted. */
const MAX_COUNTED = 256 * 1024;

/** Counts the tokens of the text, as the responder has no model. */
function usageOf({ messages }: ChatRequest, answer: string) {
  const encoding = getEncoding('CL100K_BASE');
  if (encoding === undefined) return null;
  // Counting takes longer than answering.
  const length = messages.reduce((sum, { content }) => sum + content.length, answer.length);
  if (length > MAX_COUNTED) return null;
  const prompt = messages.reduce((sum, { content }) => sum + encoding.count(content), 0);
  const completion = encoding.count(answer);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}
