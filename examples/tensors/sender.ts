import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { watchMemory } from './memory.js';
import { cacheOf, cacheParts, hiddenState, MODEL } from './model.js';

/**
 * The agent that has read the document. It hands over the state of its last token and the cache of all
 * that it has read, asks something small now and then meanwhile, and waits for the other's conclusion.
 */

/** What the sender has seen, for the report. */
export interface SenderReport {
  readonly questions: number;
  readonly slowestMs: number;
  readonly peakBytes: number;
}

const [url = '', tokens = ''] = process.argv.slice(2);
await using session = await connect(url, {
  WebSocket,
  avp: { identity: MODEL },
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
});

await session.sendTensor({
  data: hiddenState(),
  shape: [MODEL.hiddenDim],
  dtype: 'float32',
  payloadType: 'hidden_state',
  metadata: { modelId: MODEL.modelId, hiddenDim: MODEL.hiddenDim },
});

const memory = watchMemory();
const cache = cacheOf(Number(tokens));
let isSent = false;
const sent = session
  .sendTensor({
    data: cacheParts(cache),
    byteLength: cache.byteLength,
    dtype: cache.dtype,
    payloadType: 'kv_cache',
    metadata: { modelId: MODEL.modelId, numLayers: cache.numLayers, extra: { tokens } },
  })
  .finally(() => {
    isSent = true;
  });

let questions = 0;
let slowestMs = 0;
while (!isSent) {
  const start = performance.now();
  await session.request('are you there?');
  slowestMs = Math.max(slowestMs, performance.now() - start);
  questions++;
  await new Promise((resolve) => setTimeout(resolve, 5));
}
await sent;
await session.send({ questions, slowestMs, peakBytes: memory.peak() } satisfies SenderReport);

for await (const { tensor } of session) if (tensor !== undefined) break;
