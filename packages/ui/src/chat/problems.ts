import { ProtocolError } from '@parlance/client';
import OpenAI from 'openai';

/** Why an answer is missing or incomplete, and what can be done. */
export interface Problem {
  /** Error code, if the session failed. */
  readonly code: string | undefined;
  /** For people, with what they can do. */
  readonly title: string;
  /** As the server wrote it; empty if the title says everything. */
  readonly detail: string;
  /** Unix milliseconds at which the page asks again. */
  readonly retryAt: number | undefined;
}

/** Longest detail that is shown, in UTF-16 units: some servers answer with whole pages. */
const MAX_DETAIL = 600;

/** Describes a failed answer; `undefined` if the error is a bug of this page. */
export function problemOf(error: unknown): Problem | undefined {
  // The SDK wraps errors of its fetch.
  const cause = error instanceof OpenAI.APIConnectionError ? error.cause : error;
  if (cause instanceof ProtocolError) return ofSession(cause);
  if (error instanceof OpenAI.APIError) return ofApi(error);
  return undefined;
}

function ofSession({ code, message, retryAfterMs }: ProtocolError): Problem {
  const retryAt = retryAfterMs === undefined ? undefined : Date.now() + retryAfterMs;
  const title = TITLES[code] ?? sentence(message);
  return { code, title, detail: `${code}: ${message}`, retryAt };
}

const TITLES: Readonly<Partial<Record<string, string>>> = {
  upstream_interrupted: 'The answer broke off: the model’s server closed the connection. Ask again.',
  upstream_unreachable: 'The model’s server cannot be reached. Is it running, and is its address right?',
  interrupted: 'Cut short: the server was restarted. Ask again.',
  internal: 'The server failed to answer. Its log says why.',
  timeout: 'The answer took too long. Ask again, or ask for less.',
  too_many_streams: 'Too many answers are being written at once. Stop one of them.',
  message_too_large: 'The conversation is larger than the server accepts. Begin a new chat.',
};

function ofApi(error: InstanceType<typeof OpenAI.APIError>): Problem {
  const { status, headers } = error;
  const body: unknown = error.error;
  const said =
    typeof body === 'object' && body !== null && 'message' in body ? String(body.message) : error.message;
  const detail = shorten(said);
  const make = (title: string, retryAt?: number): Problem => ({ code: undefined, title, detail, retryAt });
  if (status === 401 || status === 403)
    return make('The API key was refused. Check OPENAI_API_KEY where the server runs.');
  if (status === 404) return make('The API does not know this model, or has another address.');
  if (status === 429) {
    const seconds = Number(headers?.get('retry-after') ?? Number.NaN);
    return make(
      'The API limits how much may be asked.',
      Number.isFinite(seconds) ? Date.now() + seconds * 1000 : undefined,
    );
  }
  if (status !== undefined && status >= 500)
    return make(`The model’s server failed (${status}). Ask again later.`);
  return { code: undefined, title: sentence(detail), detail: '', retryAt: undefined };
}

function shorten(text: string): string {
  return text.length <= MAX_DETAIL ? text : `${text.slice(0, MAX_DETAIL)}…`;
}

function sentence(text: string): string {
  const shown = shorten(text);
  return `${shown.slice(0, 1).toUpperCase()}${shown.slice(1)}${/[.!?…]$/.test(shown) ? '' : '.'}`;
}
