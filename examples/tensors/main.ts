import { once } from 'node:events';
import { connect } from '@parlance/client';
import { KV_CACHE_HEADER_SIZE, type Session } from '@parlance/protocol';
import { createServer, tensors } from '@parlance/server';
import { readCommandLine, wholeNumber } from '../../scripts/command-line.js';
import { bytes, columns, count, duration, paint } from './format.js';
import { cacheOf, MODEL } from './model.js';
import { startRelay, startSender, watchStop } from './processes.js';
import { type Exchange, receive } from './receiver.js';
import { showTable } from './table.js';

/**
 * `npm run tensors`: an agent has read a document and hands its hidden state and KV-cache over to another
 * agent with the same model, which answers with a hidden state. First the two are connected directly, then
 * through a server that forwards tensors without understanding them.
 */

const USAGE = `npm run tensors -- [--tokens N]

  --tokens N   length of the document; each token needs 128 KiB of cache (default: 2048)`;

const { values } = readCommandLine(USAGE, { options: { tokens: { type: 'string', default: '2048' } } });
const tokens = wholeNumber('tokens', values.tokens, USAGE);

const TENSORS = { transfers: 'stream', avp: { identity: MODEL } } as const;
const OPTIONS = {
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  onRequest: () => 'yes',
} as const;

watchStop();
introduce();
const direct = await exchangeDirectly();
const { relayed, relayPeakBytes } = await exchangeThroughServer();
conclude();

function introduce(): void {
  const { modelId, numLayers, numKvHeads, headDim } = MODEL;
  const perToken = bytes(cacheOf(1).byteLength - KV_CACHE_HEADER_SIZE);
  console.log(`\n${paint('bold', 'One agent hands its state over to another')}\n`);
  const facts = [
    ['model', `${modelId}: ${numLayers} layers, ${numKvHeads} KV heads of ${headDim}, bfloat16`],
    ['document', `${count(tokens)} tokens with ${perToken} of KV-cache each`],
  ];
  console.log(columns(facts).join('\n'));
}

/** The sender is a client; this process is the server and receives its tensors. */
async function exchangeDirectly(): Promise<Exchange> {
  let accept: (session: Session) => void;
  const accepted = new Promise<Session>((resolve) => {
    accept = resolve;
  });
  const server = createServer({
    ...OPTIONS,
    features: [tensors(TENSORS)],
    onSession: (session) => accept(session),
  });
  const { url } = await server.listen();
  chapter('Directly, over one session');
  console.log('  starting the sender …');
  const sender = startSender(url, tokens);
  const session = await accepted;
  const { avp, reasons } = session.negotiated;
  const reason = reasons.find((each) => each.startsWith('tensors'));
  console.log(`  agreed: ${reason} (mode ${avp?.mode})\n`);
  const exchange = await receive(session, tokens);
  if (sender.exitCode === null) await once(sender, 'exit');
  await server.close();
  return exchange;
}

/** Sender and receiver are clients; a server in a third process forwards the tensors piece by piece. */
async function exchangeThroughServer(): Promise<{ relayed: Exchange; relayPeakBytes: number }> {
  chapter('Through a server, from client to client');
  console.log('  starting the server and the sender …');
  const relay = await startRelay();
  const session = await connect(relay.url, { ...OPTIONS, ...TENSORS, token: 'writer' });
  const agents = await session.agents();
  const changes = agents[Symbol.asyncIterator]();
  const sender = startSender(relay.url, tokens, { token: 'reader', to: 'writer' });
  while (agents.get('reader') === undefined) await changes.next();
  await changes.return?.();
  const { mode, path } = agents.get('reader')?.compatibility ?? {};
  console.log(`  directory: ${path?.replaceAll('_', ' ')} (mode ${mode})\n`);
  relay.watchMemory();
  const exchange = await receive(session, tokens, 'reader');
  const relayPeakBytes = await relay.peakBytes();
  if (sender.exitCode === null) await once(sender, 'exit');
  await session.close();
  relay.stop();
  return { relayed: exchange, relayPeakBytes };
}

function chapter(title: string): void {
  console.log(`\n${paint('bold', title)}`);
}

function conclude(): void {
  const exchanges = [direct, relayed];
  showTable([
    { title: 'over one session', transfers: direct.transfers },
    { title: 'through the server', transfers: relayed.transfers },
  ]);
  const questions = exchanges.reduce((sum, { sender }) => sum + sender.questions, 0);
  const slowestMs = Math.max(...exchanges.map(({ sender }) => sender.slowestMs));
  const peaks = {
    sender: Math.max(...exchanges.map(({ sender }) => sender.peakBytes)),
    receiver: Math.max(...exchanges.map(({ peakBytes }) => peakBytes)),
    server: relayPeakBytes,
  };
  const heldLess = Math.max(...Object.values(peaks)) < cacheOf(tokens).byteLength / 2;
  const end = heldLess ? ': no process held a complete cache.' : '.';
  console.log(
    `\n  Meanwhile, ${questions} small requests were answered in the same sessions,` +
      `\n  the slowest within ${duration(slowestMs)}. Memory grew by ${bytes(peaks.sender)} at the sender, ` +
      `${bytes(peaks.receiver)} at\n  the receiver and ${bytes(peaks.server)} at the server${end}\n`,
  );
  const isRight = exchanges.every(({ transfers }) => transfers.every((each) => each.isRight));
  process.exitCode = isRight ? 0 : 1;
}
