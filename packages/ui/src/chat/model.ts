import { ProtocolError } from '@parlance/client';
import OpenAI from 'openai';
import type { Setup } from './composing/setup.js';
import { type ChatMessage, messagesOf, type Piece, type Turn, type TurnReply } from './conversation.js';
import { pieceOf } from './piece.js';
import { measureFetch, type PlainHttpSize } from './plain-http.js';
import { chunkOf, nextSum } from './proof/sum.js';

export { problemOf } from './problems.js';
export { askWritten } from './proof/sum.js';
export { gather } from './wire/gathering.js';

/** The host is ignored, as requests go over the session. */
const BASE_URL = 'http://session/v1';
const PATH = '/chat/completions';

type Chunks = AsyncIterable<unknown>;

/**
 * Sends the conversation and yields the answer as it arrives. This is all it takes: the unmodified `openai`
 * package with the session's `fetch`.
 *
 * @param fetch the session's.
 * @param size updated with the size of the same exchange as plain HTTP.
 */
export async function* askModel(
  model: string,
  { system, temperature }: Setup,
  turns: readonly Turn[],
  signal: AbortSignal,
  fetch: typeof globalThis.fetch,
  size: PlainHttpSize,
): AsyncGenerator<Piece> {
  const reply = turns.at(-1)?.reply;
  const headers = reply && { 'x-parlance-reply-name': reply.name };
  const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }];
  const messages = [...first, ...messagesOf(turns)];
  const handed: Uint8Array[] = [];
  const { data, response } = await clientOf(measureFetch(fetch, size, (piece) => handed.push(piece)))
    .chat.completions.create(
      { model, messages, ...(temperature !== undefined && { temperature }), stream: true },
      { signal, ...(headers && { headers }) },
    )
    .withResponse();
  yield* readPieces(data, response, reply, handed);
}

/**
 * Yields the rest of an answer that the server keeps.
 *
 * @throws {ProtocolError} `unknown_reply` if it does not keep the answer.
 */
export async function* followModel(
  reply: TurnReply,
  signal: AbortSignal,
  fetch: typeof globalThis.fetch,
  size: PlainHttpSize,
): AsyncGenerator<Piece> {
  const headers = { 'x-parlance-follow': reply.name, 'x-parlance-after': String(reply.position) };
  const handed: Uint8Array[] = [];
  const { data, response } = await clientOf(measureFetch(fetch, size, (piece) => handed.push(piece)))
    .get<Chunks>(PATH, { headers, signal, stream: true })
    .withResponse();
  if (response.status === 204) throw new ProtocolError('unknown_reply', 'the server has not kept the answer');
  yield* readPieces(data, response, reply, handed);
}

function clientOf(fetch: typeof globalThis.fetch): OpenAI {
  return new OpenAI({
    baseURL: BASE_URL,
    apiKey: 'unused',
    dangerouslyAllowBrowser: true,
    maxRetries: 0,
    fetch,
  });
}

/**
 * Counts each chunk in the position of the reply, and adds it to the sum, at the moment at which its piece is taken: what is stored then
 * fits together.
 *
 * @param handed the chunks in the stream of events, which may be ahead of the pieces.
 */
async function* readPieces(
  chunks: Chunks,
  { headers }: Response,
  reply: TurnReply | undefined,
  handed: Uint8Array[],
): AsyncGenerator<Piece> {
  if (reply !== undefined) {
    const after = Number(headers.get('x-parlance-after') ?? 0);
    if (after !== reply.position) reply.sum = undefined;
    reply.position = after;
  }
  const advance = (piece: Uint8Array | undefined) => {
    if (reply === undefined) return;
    const chunk = piece && chunkOf(piece);
    if (piece !== undefined && chunk === undefined) return;
    reply.position++;
    reply.sum = chunk === undefined || reply.sum === undefined ? undefined : nextSum(reply.sum, chunk);
  };
  for await (const chunk of chunks) {
    advance(handed.shift());
    yield pieceOf(chunk);
  }
  // Such as `[DONE]`, of which the SDK makes nothing.
  for (const piece of handed) advance(piece);
}

/** The names of the models that the API lists; empty if it lists none. */
export async function listModels(fetch: typeof globalThis.fetch): Promise<readonly string[]> {
  const names: string[] = [];
  try {
    for await (const { id } of clientOf(fetch).models.list()) names.push(id);
  } catch (error) {
    if (!(error instanceof OpenAI.APIError || error instanceof ProtocolError)) throw error;
  }
  return names;
}
