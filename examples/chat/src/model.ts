import { type ClientSession, ProtocolError } from '@parlance/client';
import OpenAI from 'openai';
import { messagesOf, type Turn } from './conversation.js';
import { measureFetch, type PlainHttpSize } from './plain-http.js';

/** Model of the requests; the embedded responder ignores it. */
const MODEL = new URLSearchParams(location.search).get('model') ?? 'gpt-4o';
/** The host is ignored, as requests go over the session. */
const BASE_URL = 'http://session/v1';

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
  const openai = new OpenAI({
    baseURL: BASE_URL,
    apiKey: 'unused',
    dangerouslyAllowBrowser: true,
    maxRetries: 0,
    fetch: measureFetch(session.fetch, size),
  });
  const chunks = await openai.chat.completions.create(
    { model: MODEL, messages: messagesOf(turns), stream: true },
    { signal },
  );
  for await (const chunk of chunks) yield chunk.choices[0]?.delta.content ?? '';
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
