import {
  decodeKvCacheHeader,
  KV_CACHE_HEADER_SIZE,
  type Message,
  type Session,
  type StreamedTensor,
} from '@parlance/protocol';
import { watchMemory } from './memory.js';
import { cacheOf, hiddenState, isOfCache, jsonSize, MODEL } from './model.js';
import { createProgress } from './progress.js';
import type { SenderReport } from './sender.js';

/** One tensor transfer. */
export interface Transfer {
  readonly name: string;
  readonly numbers: number;
  readonly dtype: 'float32' | 'bfloat16';
  readonly size: number;
  readonly jsonSize: number;
  /** Milliseconds until the receiver had verified it. */
  readonly ms: number;
  readonly isRight: boolean;
}

/** All transfers between two agents. */
export interface Exchange {
  readonly transfers: readonly Transfer[];
  readonly sender: SenderReport;
  /** Peak growth of this process in bytes. */
  readonly peakBytes: number;
}

/**
 * Reads a hidden state and a cache while they arrive, and answers with a hidden state.
 *
 * @param to the agent to answer. @default the peer of the session
 */
export async function receive(session: Session, tokens: number, to?: string): Promise<Exchange> {
  const messages = session[Symbol.asyncIterator]();
  const nextTensor = async () => streamOf((await messages.next()).value);

  const expected = new Uint8Array(hiddenState().buffer);
  const stateIsRight = await read(await nextTensor(), (chunk, offset) =>
    chunk.every((byte, i) => byte === expected[offset + i]),
  );

  const memory = watchMemory();
  const cache = await nextTensor();
  const progress = createProgress('KV-cache', cache.byteLength);
  const cacheIsRight = await read(cache, (chunk, offset) => {
    progress.update(offset + chunk.length);
    // Pieces may have any size, but the first one always contains the header.
    const isHeaderRight = offset > 0 || decodeKvCacheHeader(chunk).seqLen === tokens;
    return isHeaderRight && isOfCache(chunk, offset);
  });
  progress.finish();
  const peakBytes = memory.peak();

  const report = (await messages.next()).value as Message;
  const sender = report.json<SenderReport>();
  const { byteLength } = cacheOf(tokens);
  return {
    transfers: [
      describeState('hidden state', sender.stateMs, stateIsRight),
      describe('KV-cache', (byteLength - KV_CACHE_HEADER_SIZE) / 2, 'bfloat16', {
        size: byteLength,
        ms: sender.cacheMs,
        isRight: cacheIsRight && cache.byteLength === byteLength,
      }),
      describeState('its answer', await answer(session, to), true),
    ],
    sender,
    peakBytes,
  };
}

function streamOf(message: Message | undefined): StreamedTensor {
  if (message?.tensor?.chunks !== undefined) return message.tensor;
  throw new Error('the sender sent a message without a tensor');
}

/** Reads a tensor while it arrives. @param check receives its bytes in order. */
async function read(
  tensor: StreamedTensor,
  check: (bytes: Uint8Array, offset: number) => boolean,
): Promise<boolean> {
  let offset = 0;
  let isRight = true;
  for await (const chunk of tensor.chunks) {
    isRight = check(chunk, offset) && isRight;
    offset += chunk.length;
  }
  return isRight && offset === tensor.byteLength;
}

/** Sends the answer. @returns milliseconds until the other end has verified it. */
async function answer(session: Session, to: string | undefined): Promise<number> {
  const data = hiddenState();
  const start = performance.now();
  await session.sendTensor(
    { data, shape: [data.length], dtype: 'float32', payloadType: 'hidden_state' },
    { to },
  );
  return performance.now() - start;
}

function describeState(name: string, ms: number, isRight: boolean): Transfer {
  return describe(name, MODEL.hiddenDim, 'float32', { size: 4 * MODEL.hiddenDim, ms, isRight });
}

function describe(
  name: string,
  numbers: number,
  dtype: Transfer['dtype'],
  rest: Pick<Transfer, 'size' | 'ms' | 'isRight'>,
): Transfer {
  return { name, numbers, dtype, jsonSize: jsonSize(numbers, dtype), ...rest };
}
