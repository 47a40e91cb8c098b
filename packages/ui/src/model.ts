import { type ClientSession, ProtocolError } from '@parlance/client';
import OpenAI from 'openai';
import { messagesOf, type Turn, type TurnReply } from './conversation.js';
import { measureFetch, type PlainHttpSize } from './plain-http.js';

/** Model of the requests; the embedded responder ignores it. */
const MODEL = new URLSearchParams(location.search).get('model') ?? 'gpt-4o';
/** The host is ignored, as requests go over the session. */
const BASE_URL = 'http://session/v1';
const PATH = '/chat/completions';

type Chunks = AsyncIterable<OpenAI.ChatCompletionChunk>;

/**
 * Sends the conversation and yields the answer as it arrives. This is all it takes: the unmodified `openai`
 * package with the session's `fetch`.
 *
 * @param size updated with the size of the same exchange as plain HTTP.
 */
export async function* askModel(
  session: ClientSession,
  turns: readonly Turn[],
  signal: AbortSignal,
  size: PlainHttpSize,
): AsyncGenerator<string> {
  const reply = turns.at(-1)?.reply;
  const headers = reply && { 'x-parlance-reply-name': reply.name };
  const { data, response } = await clientOf(session, size)
    .chat.completions.create(
      { model: MODEL, messages: messagesOf(turns), stream: true },
      { signal, ...(headers && { headers }) },
    )
    .withResponse();
  yield* readWords(data, response, reply);
}

/**
 * Yields the rest of an answer that the server keeps.
 *
 * @throws {ProtocolError} `unknown_reply` if it does not keep the answer.
 */
export async function* followModel(
  session: ClientSession,
  reply: TurnReply,
  signal: AbortSignal,
  size: PlainHttpSize,
): AsyncGenerator<string> {
  const headers = { 'x-parlance-follow': reply.name, 'x-parlance-after': String(reply.position) };
  const { data, response } = await clientOf(session, size)
    .get<Chunks>(PATH, { headers, signal, stream: true })
    .withResponse();
  if (response.status === 204) throw new ProtocolError('unknown_reply', 'the server has not kept the answer');
  yield* readWords(data, response, reply);
}

function clientOf({ fetch }: ClientSession, size: PlainHttpSize): OpenAI {
  return new OpenAI({
    baseURL: BASE_URL,
    apiKey: 'unused',
    dangerouslyAllowBrowser: true,
    maxRetries: 0,
    fetch: measureFetch(fetch, size),
  });
}

/** Counts each chunk in the position of the reply, at the moment at which its text is taken. */
async function* readWords(
  chunks: Chunks,
  { headers }: Response,
  reply: TurnReply | undefined,
): AsyncGenerator<string> {
  if (reply !== undefined) reply.position = Number(headers.get('x-parlance-after') ?? 0);
  for await (const chunk of chunks) {
    if (reply !== undefined) reply.position++;
    yield chunk.choices[0]?.delta.content ?? '';
  }
}

/** Why an answer is missing or incomplete. */
export interface Problem {
  /** Error code, if the session failed. */
  readonly code: string | undefined;
  readonly text: string;
}

/** Describes a failed answer; `undefined` if the error is a bug of this page. */
export function problemOf(error: unknown): Problem | undefined {
  // The SDK wraps errors of its fetch.
  const cause = error instanceof OpenAI.APIConnectionError ? error.cause : error;
  if (cause instanceof ProtocolError) {
    const { code, message, retryAfterMs } = cause;
    const again = retryAfterMs === undefined ? '' : `. Try again in ${Math.ceil(retryAfterMs / 1000)} s.`;
    return { code, text: `${code}: ${message}${again}` };
  }
  return error instanceof OpenAI.APIError ? { code: undefined, text: error.message } : undefined;
}
