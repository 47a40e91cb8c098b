import {
  type Message,
  type Part,
  ProtocolError,
  type RequestContext,
  RequestError,
} from '@parlance/protocol';
import { count } from '../../base/text-layout.js';
import { PREPARED, QUESTIONS } from './answers.js';
import {
  ApiError,
  assertChatPath,
  type ChatRequest,
  completionReply,
  errorReply,
  readHttpHead,
} from './chat-completion.js';

export interface ResponderOptions {
  /** Pause between two words in milliseconds. @default 0 */
  readonly delayMs?: number;
}

/**
 * The embedded responder: an `onRequest` handler that answers chat requests without a model, word by word,
 * and the same question always with the same answer. Requests by `session.fetch` get an OpenAI-compatible
 * response, other requests plain text. If its process dies and the session outlives it, the next one continues the answer.
 */
export function createResponder({
  delayMs = 0,
}: ResponderOptions = {}): (request: Message, context: RequestContext) => AsyncGenerator<Part> {
  return async function* respond(request, context) {
    const { signal, yielded } = context;
    context.ifProcessDies('again');
    const head = readHttpHead(context);
    if (head === undefined) {
      let words = 0;
      for await (const word of answerInWords(readChat(request), delayMs, signal, yielded.length))
        if (++words > yielded.length) yield word;
      return;
    }
    try {
      assertChatPath(head);
      const chat = readChat(request);
      yield* completionReply(chat, answerInWords(chat, delayMs, signal, yielded.length), context);
    } catch (error) {
      if (error instanceof ApiError) yield errorReply(error, context);
      else if (isBadRequest(error)) yield errorReply(new ApiError(400, error.message), context);
      else throw error;
    }
  };
}

/** @param from words before this one come without a pause. */
async function* answerInWords(
  chat: ChatRequest,
  delayMs: number,
  signal: AbortSignal,
  from: number,
): AsyncGenerator<string> {
  for (const [index, word] of wordsOf(answerTo(chat)).entries()) {
    if (signal.aborted) return;
    if (delayMs > 0 && index >= from) await pause(delayMs, signal);
    yield word;
  }
}

/** Whether the error is the client's: the request is not JSON, or not a chat. */
function isBadRequest(error: unknown): error is Error {
  return error instanceof RequestError || error instanceof ProtocolError;
}

/** Longest question, in UTF-16 units: a few bytes of Brotli may hold millions of words. */
export const MAX_QUESTION = 64 * 1024;

/** The answer to the user's last message. */
export function answerTo({ messages }: ChatRequest): string {
  const questions = messages
    .filter((message) => message.role === 'user')
    .map((message) => message.content.slice(0, MAX_QUESTION).trim());
  const question = questions.at(-1) ?? '';
  const prepared = PREPARED.get(question.toLowerCase());
  if (prepared !== undefined) return prepared;
  const words = question.split(/\s+/u).filter((word) => word !== '');
  const before = questions.at(-2);
  const place =
    before === undefined
      ? 'It is the first one of this chat.'
      : `It is number ${questions.length} of this chat, and the one before was “${shorten(before, 60)}”.`;
  return `No model is connected here, so I can only count: your question has ${count(words.length, 'word')} and ${count([...question].length, 'character')}. ${place}

Each of these has an answer:

${QUESTIONS.map((known) => `- ${known}`).join('\n')}

For answers of a model, start \`parlance serve --upstream URL\` with the address of an API of OpenAI’s kind, such as \`http://127.0.0.1:11434/v1\` of Ollama.`;
}

function readChat(request: Message): ChatRequest {
  const chat = request.json<ChatRequest>();
  if (typeof chat?.model !== 'string' || !Array.isArray(chat.messages)) {
    throw new RequestError(
      'bad_request',
      'expected a chat request: { model, messages: [{ role, content }] }',
    );
  }
  if (!chat.messages.every((message) => typeof message?.content === 'string')) {
    throw new RequestError('bad_request', 'the content of a message must be a string');
  }
  return chat;
}

/** Words with the space before them, as in tokenizer vocabularies. */
function wordsOf(text: string): string[] {
  return text.match(/\s*\S+/gu) ?? [];
}

/** @param length characters at most. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  const characters = [...text];
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join('')}…`;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
