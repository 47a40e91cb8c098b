import { collectParagraphs } from './prose.js';

/** Chat messages as they travel: requests of a given size, and the traffic of a whole conversation. */

export interface Sample {
  readonly value: object;
  /** `value` as compact JSON. */
  readonly text: string;
}

interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

const SYSTEM: ChatMessage = {
  role: 'system',
  content: 'You explain software to people who are new to it.',
};

/** Yields each paragraph once before it repeats any. @param accept which paragraphs to use. */
export function createProse(accept: (paragraph: string) => boolean = () => true): () => string {
  const paragraphs = collectParagraphs().filter(accept);
  let next = 0;
  return () => paragraphs[next++ % paragraphs.length] as string;
}

/** The dictionary codec carries printable ASCII only. */
export function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length && !/[^\x20-\x7e]/.test(text);
}

/** Bytes of JSON around the content of a message. */
const ENVELOPE = 34;
/** Shortest content of a message. */
const LEAST = 24;

/** `count` different requests, each of about `size` bytes of JSON in ASCII. */
export function chatRequests(size: number, count: number): Sample[] {
  const prose = createProse(isAscii);
  return Array.from({ length: count }, () => {
    const messages: ChatMessage[] = [SYSTEM];
    const build = () => request(messages);
    for (
      let room = size - byteLength(build()) - ENVELOPE;
      room >= LEAST;
      room = size - byteLength(build()) - ENVELOPE
    ) {
      const role = messages.length % 2 === 1 ? 'user' : 'assistant';
      messages.push({ role, content: prose().slice(0, room) });
    }
    return sample(build());
  });
}

export interface Traffic {
  /** The client's messages: every request repeats the whole history. */
  readonly requests: readonly string[];
  /** The server's messages: whole responses in even turns, streamed chunks in odd ones. */
  readonly replies: readonly string[];
}

export function chatTraffic(prose: () => string, turns: number): Traffic {
  const messages: ChatMessage[] = [SYSTEM];
  const requests: string[] = [];
  const replies: string[] = [];
  for (let turn = 0; turn < turns; turn++) {
    messages.push({ role: 'user', content: `What does this mean? ${prose()}` });
    requests.push(JSON.stringify({ ...request(messages), stream: turn % 2 === 1 }));
    const answer = prose();
    if (turn % 2 === 0) replies.push(JSON.stringify(response(turn, answer)));
    else for (const chunk of chunks(turn, answer)) replies.push(JSON.stringify(chunk));
    messages.push({ role: 'assistant', content: answer });
  }
  return { requests, replies };
}

function request(messages: readonly ChatMessage[]) {
  return { model: 'gpt-4o', messages, temperature: 0.7, max_tokens: 512 };
}

function head(turn: number, object: string) {
  const id = `chatcmpl-${(turn * 7_919 + 104_729).toString(36).padStart(8, 'A')}QzR7vLkT1m`;
  return { id, object, created: 1_760_000_000 + turn * 17, model: 'gpt-4o-2024-08-06' };
}

function response(turn: number, content: string) {
  return {
    ...head(turn, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content, refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 100 + turn * 150,
      completion_tokens: content.length >> 2,
      total_tokens: 100 + turn * 150 + (content.length >> 2),
    },
    system_fingerprint: 'fp_a24b4d720c',
  };
}

/** One word per chunk, about the length of a model's token. */
function chunks(turn: number, content: string): object[] {
  const words = content.match(/\s*\S+/g) ?? [];
  const chunk = (delta: object, finishReason: string | null) => ({
    ...head(turn, 'chat.completion.chunk'),
    system_fingerprint: 'fp_a24b4d720c',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
  });
  return [
    chunk({ role: 'assistant', content: '' }, null),
    ...words.map((word) => chunk({ content: word }, null)),
    chunk({}, 'stop'),
  ];
}

function sample(value: object): Sample {
  return { value, text: JSON.stringify(value) };
}

function byteLength(value: object): number {
  return Buffer.byteLength(JSON.stringify(value));
}
