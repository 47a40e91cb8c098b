import type { RequestListener } from 'node:http';
import type { Encoding } from '@parlance/protocol';
import { collectParagraphs } from '../codecs/prose.js';

/** A streamed answer, as token IDs and as the JSON chunks of a chat API. */

/** The first `count` tokens of prose. */
export function answerTokens(encoding: Encoding, count: number): Uint32Array {
  const ids = encoding.encode(collectParagraphs().slice(0, 200).join('\n\n'));
  if (ids.length < count) throw new Error('too little prose in the READMEs of the installed packages');
  return ids.slice(0, count);
}

/** The text of each token; a character made of several tokens comes with the last of them. */
export function textsOf(encoding: Encoding, ids: Uint32Array): string[] {
  const decoder = encoding.createDecoder();
  return [...ids].map((id) => decoder.push([id])).filter((text) => text !== '');
}

/** One chunk of an OpenAI stream. */
export function chunkOf(text: string): string {
  return JSON.stringify({
    id: 'chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG',
    object: 'chat.completion.chunk',
    created: 1741569952,
    model: 'gpt-4o-2024-08-06',
    system_fingerprint: 'fp_44709d6fcb',
    choices: [{ index: 0, delta: { content: text }, logprobs: null, finish_reason: null }],
  });
}

/** Answers each request with all chunks as server-sent events. */
export function answerWithEvents(chunks: readonly string[]): RequestListener {
  return (request, response) => {
    request.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
      for (const chunk of chunks) response.write(`data: ${chunk}\n\n`);
      response.end('data: [DONE]\n\n');
    });
  };
}
