import { connect } from '@parlance/client';
import { watchMemory } from './memory.js';
import { cacheOf, cacheParts, hiddenState, MODEL } from './model.js';

/**
 * The agent that has read the document. It sends the hidden state of its last token and its KV-cache, makes
 * small requests meanwhile, and waits for the answer.
 */

/** The measurements of the sender. */
export interface SenderReport {
  /** Milliseconds until the receiver had verified it. */
  readonly stateMs: number;
  readonly cacheMs: number;
  readonly questions: number;
  readonly slowestMs: number;
  readonly peakBytes: number;
}

// Exit if the parent process is gone.
process.once('disconnect', () => process.exit(1));
process.channel?.unref();

const [url = '', tokens = '', token, to] = process.argv.slice(2);
await using session = await connect(url, {
  token,
  avp: { identity: MODEL },
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
});

const start = performance.now();
await session.sendTensor(
  {
    data: hiddenState(),
    shape: [MODEL.hiddenDim],
    dtype: 'float32',
    payloadType: 'hidden_state',
    metadata: { modelId: MODEL.modelId, hiddenDim: MODEL.hiddenDim },
  },
  { to },
);
const stateMs = performance.now() - start;

const memory = watchMemory();
const cache = cacheOf(Number(tokens));
let cacheMs: number | undefined;
const cacheStart = performance.now();
const sent = session
  .sendTensor(
    {
      data: cacheParts(cache),
      byteLength: cache.byteLength,
      dtype: cache.dtype,
      payloadType: 'kv_cache',
      metadata: { modelId: MODEL.modelId, numLayers: cache.numLayers, extra: { tokens } },
    },
    { to },
  )
  .finally(() => {
    cacheMs = performance.now() - cacheStart;
  });

let questions = 0;
let slowestMs = 0;
while (cacheMs === undefined) {
  const start = performance.now();
  await session.request('are you there?', { to });
  slowestMs = Math.max(slowestMs, performance.now() - start);
  questions++;
  await new Promise((resolve) => setTimeout(resolve, 5));
}
await sent;
const report: SenderReport = { stateMs, cacheMs, questions, slowestMs, peakBytes: memory.peak() };
await session.send(report, { to });

for await (const { tensor } of session) if (tensor !== undefined) break;
