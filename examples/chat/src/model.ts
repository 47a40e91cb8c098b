import { type ClientSession, ProtocolError } from '@parlance/client';
import OpenAI from 'openai';
import { messagesOf, type Turn } from './conversation.js';
import { measureFetch, type PlainHttpSize } from './plain-http.js';

/** A label for whoever answers; the embedded responder has no model. */
const MODEL = new URLSearchParams(location.search).get('model') ?? 'gpt-4o';
/** Names no host: whatever it is, requests go over the session. */
const BASE_URL = 'http://session/v1';

/**
 * Asks with everything said so far and hands out the answer as it comes. This is the whole of it: the
 * `openai` package as it is, with the session's `fetch`.
 *
 * @param size kept up with what the same would take without a session.
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

/** Why there was no answer, or not all of it. */
export interface Problem {
  /** A session's word for it, where it was the session. */
  readonly code: string | undefined;
  readonly text: string;
}

/** What went wrong with an answer; `undefined` where it is a fault of this page. */
export function problemOf(error: unknown): Problem | undefined {
  // The SDK wraps what its fetch rejects with.
  const cause = error instanceof OpenAI.APIConnectionError ? error.cause : error;
  if (cause instanceof ProtocolError) {
    const { code, message, retryAfterMs } = cause;
    const again = retryAfterMs === undefined ? '' : `. Again in ${Math.ceil(retryAfterMs / 1000)} s.`;
    return { code, text: `${code}: ${message}${again}` };
  }
  return error instanceof OpenAI.APIError ? { code: undefined, text: error.message } : undefined;
}
