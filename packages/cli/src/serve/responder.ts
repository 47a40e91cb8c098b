import {
  type Logger,
  type Message,
  type Part,
  ProtocolError,
  type RequestContext,
  type RequestHandler,
} from '@parlance/protocol';

import { count } from '../base/text-layout.js';
import { withSum } from './sum.js';
import { readHttpHead } from './toy/chat-completion.js';
import { createResponder as createToyModel, MAX_QUESTION, shorten } from './toy/model.js';

export interface ResponderOptions {
  /** Base URL of an OpenAI-compatible API. @default the embedded responder */
  readonly upstream: string | undefined;
  /** Key that the upstream requires. */
  readonly apiKey: string | undefined;
  readonly logger: Logger;
}

/**
 * The request handler of `parlance serve`.
 *
 * @throws {ProtocolError} `invalid_option` if the upstream is not a URL.
 */
export async function createResponder({
  upstream,
  apiKey,
  logger,
}: ResponderOptions): Promise<RequestHandler> {
  if (upstream === undefined) return withSum(createEmbeddedResponder());
  // Loaded only if it is needed.
  const { createOpenAIGateway } = await import('@parlance/server/openai');
  return withSum(createOpenAIGateway({ baseUrl: upstream, apiKey, logger }));
}

/**
 * Answers requests without a model, word by word, for trying things out. A chat request is answered by
 * its last message, any other request by its text; a request by `session.fetch` like an OpenAI-compatible API would.
 */
export function createEmbeddedResponder(): RequestHandler {
  const model = createToyModel({ delayMs: MODEL_PACE_MS });
  return async function* respond(request: Message, context: RequestContext): AsyncGenerator<Part> {
    const { signal } = context;
    // By `session.fetch`, such as from the chat page.
    if (readHttpHead(context) !== undefined) return yield* model(request, context);
    // The next process continues behind what this one has said.
    context.ifProcessDies('again');
    for (const word of (answerTo(questionOf(request)).match(/\s*\S+/gu) ?? []).slice(
      context.yielded.length,
    )) {
      if (signal.aborted) return;
      yield word;
    }
  };
}

/** Between two words of an answer that a person reads. */
const MODEL_PACE_MS = 25;
/** Characters of the question that an answer repeats. */
const MAX_QUOTED = 60;

function answerTo(question: string): string {
  // Half a surrogate pair has no UTF-8 form.
  const considered = question.slice(0, MAX_QUESTION).replace(/[\ud800-\udbff]$/, '');
  const words = considered.split(/\s+/u).filter((word) => word !== '');
  if (words.length === 0) return 'You said nothing.';
  const longest = words.reduce((best, word) => (word.length > best.length ? word : best));
  return [
    `You said “${shorten(considered.trim(), MAX_QUOTED)}”: ${count(words.length, 'word')}${considered === question ? '' : ' and more'},`,
    `the longest of them “${shorten(longest, MAX_QUOTED)}”.`,
    'This is not a model; run parlance serve --upstream URL to use one.',
  ].join(' ');
}

/** The last message of a chat request, or the text of any other request. */
function questionOf(request: Message): string {
  const { text } = request;
  let chat: unknown;
  try {
    chat = request.json();
  } catch (error) {
    if (error instanceof ProtocolError) return text;
    throw error;
  }
  const messages = (chat as { messages?: unknown } | null)?.messages;
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  const content = (last as { content?: unknown } | null | undefined)?.content;
  return typeof content === 'string' ? content : text;
}
