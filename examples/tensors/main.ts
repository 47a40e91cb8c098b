import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import {
  decodeKvCacheHeader,
  KV_CACHE_HEADER_SIZE,
  type Session,
  type StreamedTensor,
} from '@parlance/protocol';
import { createServer } from '@parlance/server';
import { bytes, columns, duration, paint, rate } from './format.js';
import { watchMemory } from './memory.js';
import { cacheOf, hiddenState, isOfCache, jsonSize, MODEL } from './model.js';
import { createProgress } from './progress.js';
import type { SenderReport } from './sender.js';

/**
 * `npm run tensors`: two agents of one model in two processes. One has read a document and hands over
 * what it has understood, a hidden state and a KV-cache; the other, here, reads them while they arrive,
 * and answers with a hidden state. `--tokens N` sets the length of the document, 128 KiB of cache each.
 */

const { values } = parseArgs({ options: { tokens: { type: 'string', default: '2048' } } });
const tokens = Number(values.tokens);
if (!Number.isSafeInteger(tokens) || tokens < 1) throw new Error('--tokens is a positive whole number');

/** A line of the table. */
interface Transfer {
  readonly name: string;
  readonly shape: string;
  readonly dtype: string;
  readonly size: number;
  readonly jsonSize: number;
  readonly ms: number;
  readonly isRight: boolean;
}

console.log(
  `\n${paint('bold', 'Two agents of one model, each in a process of its own, over one session')}\n`,
);
let accept: (session: Session) => void;
const accepted = new Promise<Session>((resolve) => {
  accept = resolve;
});
const server = createServer({
  transfers: 'stream',
  avp: { identity: MODEL },
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  onRequest: () => 'yes',
  onSession: (session) => accept(session),
});
const { url } = await server.listen();
const sender: ChildProcess = fork(fileURLToPath(new URL('./sender.ts', import.meta.url)), [
  url,
  String(tokens),
]);
sender.once('exit', (code) => {
  if (code === 0) return;
  console.error('the sender failed');
  process.exit(1);
});

const session = await accepted;
describeAgreement(session);
const messages = session[Symbol.asyncIterator]();
const state = await takeHiddenState(await nextTensor());
const memory = watchMemory();
const cache = await takeCache(await nextTensor());
const peakBytes = memory.peak();
const { value: message } = await messages.next();
const report = message.json() as SenderReport;
const transfers = [state, cache, await answer()];
if (sender.exitCode === null) await once(sender, 'exit');
await server.close();

showTable();
const heldLess = Math.max(peakBytes, report.peakBytes) < cacheOf(tokens).byteLength / 2;
console.log(
  `\n  While the cache passed, ${report.questions} small questions were answered in the same session, each within ` +
    `${duration(report.slowestMs)}.\n  Memory grew by ${bytes(report.peakBytes)} at the sender and by ${bytes(peakBytes)} ` +
    `at the receiver${heldLess ? ': neither ever held it all' : ''}.\n`,
);
process.exitCode = transfers.every(({ isRight }) => isRight) ? 0 : 1;

function describeAgreement({ negotiated }: Session): void {
  const { numLayers, numKvHeads, headDim } = MODEL;
  const reason = negotiated.reasons.find((each) => each.startsWith('tensors')) ?? '';
  const lines = [
    ['model', `${MODEL.modelId}: ${numLayers} layers, ${numKvHeads} KV heads of ${headDim}, at both ends`],
    ['agreed', `mode ${negotiated.avp?.mode}, ${negotiated.avp?.mapId || 'no projection map'}; ${reason}`],
    [
      'document',
      `${count(tokens)} tokens, ${bytes(cacheOf(1).byteLength - KV_CACHE_HEADER_SIZE)} of cache each`,
    ],
  ];
  console.log(`${columns(lines).join('\n')}\n`);
}

async function nextTensor(): Promise<StreamedTensor> {
  const { value } = await messages.next();
  if (value?.tensor?.chunks !== undefined) return value.tensor;
  throw new Error('the sender sent something else than a tensor');
}

/** Reads a tensor while it arrives. @param check is given its bytes in order. */
async function take(
  name: string,
  tensor: StreamedTensor,
  check: (bytes: Uint8Array, offset: number) => boolean,
): Promise<{ ms: number; isRight: boolean }> {
  const progress = createProgress(name, tensor.byteLength);
  const start = performance.now();
  let offset = 0;
  let isRight = true;
  for await (const chunk of tensor.chunks) {
    isRight &&= check(chunk, offset);
    offset += chunk.length;
    progress.update(offset);
  }
  const ms = performance.now() - start;
  progress.finish();
  return { ms, isRight: isRight && offset === tensor.byteLength };
}

async function takeHiddenState(tensor: StreamedTensor): Promise<Transfer> {
  const expected = new Uint8Array(hiddenState().buffer);
  const taken = await take('hidden state', tensor, (chunk, offset) =>
    chunk.every((byte, i) => byte === expected[offset + i]),
  );
  return {
    ...taken,
    ...describeTensor('hidden state', tensor),
    jsonSize: jsonSize(MODEL.hiddenDim, 'float32'),
  };
}

async function takeCache(tensor: StreamedTensor): Promise<Transfer> {
  const expected = cacheOf(tokens);
  const taken = await take('KV-cache', tensor, (chunk, offset) => {
    // It may come cut anywhere, but nothing cuts a first piece so short.
    const isHeaderRight = offset > 0 || decodeKvCacheHeader(chunk).seqLen === tokens;
    return isHeaderRight && isOfCache(chunk, offset);
  });
  const numbers = (expected.byteLength - KV_CACHE_HEADER_SIZE) / 2;
  return {
    ...taken,
    ...describeTensor('KV-cache', tensor),
    shape: `${expected.numLayers} × 2 × [${expected.numKvHeads}, ${tokens}, ${expected.headDim}]`,
    jsonSize: jsonSize(numbers, 'bfloat16'),
  };
}

function describeTensor(name: string, { shape, dtype, byteLength }: StreamedTensor) {
  return { name, shape: `[${shape.join(', ')}]`, dtype, size: byteLength };
}

/** The conclusion, back to the sender. */
async function answer(): Promise<Transfer> {
  const data = hiddenState();
  const progress = createProgress('its answer', data.byteLength);
  const start = performance.now();
  await session.sendTensor(
    { data, shape: [data.length], dtype: 'float32', payloadType: 'hidden_state' },
    { onProgress: (done) => progress.update(done) },
  );
  progress.finish();
  const size = data.byteLength;
  const ms = performance.now() - start;
  return {
    name: 'its answer',
    shape: `[${data.length}]`,
    dtype: 'float32',
    size,
    jsonSize: jsonSize(data.length, 'float32'),
    ms,
    isRight: true,
  };
}

function showTable(): void {
  const head = ['tensor', 'shape', 'dtype', 'bytes', 'as JSON', 'time', 'rate', 'checked'];
  const rows = transfers.map(({ name, shape, dtype, size, jsonSize, ms, isRight }) => [
    name,
    shape,
    dtype,
    count(size),
    `≈ ${bytes(jsonSize)}`,
    duration(ms),
    rate(size, ms),
    isRight ? '✓' : '✗ not what was sent',
  ]);
  const [first = '', ...lines] = columns([head, ...rows], [3, 4, 5, 6]);
  console.log(`\n${paint('dim', first)}`);
  for (const line of lines) {
    console.log(line.replace(/✓$/, paint('green', '✓')).replace(/✗.*$/, (fault) => paint('red', fault)));
  }
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}
