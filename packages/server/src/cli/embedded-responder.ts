import {
  type Message,
  type Part,
  ProtocolError,
  type RequestContext,
  type RequestHandler,
} from '@parlance/protocol';

/**
 * Answers requests without a model, word by word, so that there is something to talk to: plain text,
 * and chat requests by their last message.
 */
export function createEmbeddedResponder(): RequestHandler {
  return async function* respond(request: Message, { signal }: RequestContext): AsyncGenerator<Part> {
    for (const word of answerTo(questionOf(request)).match(/\s*\S+/gu) ?? []) {
      if (signal.aborted) return;
      yield word;
    }
  };
}

/** UTF-16 units of a question that are heard: a few bytes of Brotli may hold millions of words. */
const MAX_HEARD = 64 * 1024;

function answerTo(question: string): string {
  // Half a character has no UTF-8.
  const heard = question.slice(0, MAX_HEARD).replace(/[\ud800-\udbff]$/, '');
  const words = heard.split(/\s+/u).filter((word) => word !== '');
  if (words.length === 0) return 'You said nothing.';
  const longest = words.reduce((best, word) => (word.length > best.length ? word : best));
  return [
    `You said “${shortened(heard.trim())}”: ${count(words.length, 'word')}${heard === question ? '' : ' and more'},`,
    `the longest of them “${shortened(longest)}”.`,
    'No model answers here; parlance serve --upstream URL has one answer.',
  ].join(' ');
}

/** The last message of a chat request; any other request as it is. */
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

const MAX_QUOTED = 60;

function shortened(text: string): string {
  const characters = [...text];
  return characters.length <= MAX_QUOTED ? text : `${characters.slice(0, MAX_QUOTED - 1).join('')}…`;
}

function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`;
}
