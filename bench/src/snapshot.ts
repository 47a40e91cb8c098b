import {
  createSession,
  loadCodecs,
  resolveLimits,
  resolveTimers,
  type SessionCore,
} from '@parlance/protocol';
import {
  createBodyCoder,
  createServerSession,
  restoreSession,
  type ServerSessionCore,
} from '@parlance/protocol/internal';
import { timeInTurns } from './codecs/timing.js';
import { createHistories } from './context/histories.js';
import { atMost, type BenchOptions, compare, type Row } from './row.js';

/**
 * Snapshots of sessions that move: their bytes, and the time to take and to restore one, on one core and without a
 * network. Bytes are compared with those of the messages that a session holds, an idle one with HELLO and ACCEPT; times
 * with the handshake of a new session, both ends of it.
 */

const TOKENS = 32;
const NOW = 1_000;
/** Bytes of an idle session. */
const MAX_IDLE = 500;

const OPTIONS = {
  subprotocol: 'm2m.v1',
  capabilities: {
    algorithms: ['BROTLI', 'NONE'],
    encodings: [],
    vocabularies: {},
    securityScanning: false,
    maxPayloadSize: 0,
    extensions: {
      link: '{"max_streams":128,"message_window":1048576,"stream_window":262144}',
      resume: '{}',
      context: '{"max_bytes":4194304,"max_messages":8}',
    },
  },
  limits: resolveLimits(),
  timers: resolveTimers(),
} as const;

interface Pair {
  readonly client: SessionCore;
  readonly server: ServerSessionCore;
  /** Bytes that the two have written. */
  written: number;
  /** The largest stream that the server was asked on. */
  asked: number;
}

export async function* run({ quick, conversation }: BenchOptions): AsyncGenerator<Row> {
  await loadCodecs(['CONTEXT']);
  const rounds = quick ? 5 : 25;
  const { requests = [] } = createHistories(conversation)[0] ?? {};
  const idle = connect();
  yield* rowsOf('idle', idle, { name: 'HELLO and ACCEPT', value: idle.written }, rounds);
  const stream = streaming();
  yield* rowsOf(
    `${TOKENS} unacknowledged tokens`,
    stream,
    { name: 'their frames', value: stream.written },
    rounds,
  );
  const chat = chatting(requests);
  const { received } = chat.server.channel.contextUse ?? { received: { bytes: 1 } };
  yield* rowsOf(
    `chat of ${requests.length} turns`,
    chat,
    { name: 'its context', value: received.bytes },
    rounds,
  );
}

function* rowsOf(
  name: string,
  { server }: Pair,
  content: { readonly name: string; readonly value: number },
  rounds: number,
): Generator<Row> {
  const snapshot = server.snapshot(NOW);
  const isSmall = () => ({ text: `<= ${MAX_IDLE} B`, met: snapshot.length <= MAX_IDLE });
  yield compare(name, 'B', 'lower', snapshot.length, content, name === 'idle' ? isSmall : undefined);
  const tasks = new Map<'handshake' | 'take' | 'restore', () => void>([
    ['handshake', () => void connect()],
    ['take', () => void server.snapshot(NOW)],
    ['restore', () => void restoreSession({ ...OPTIONS, role: 'server' }, snapshot, NOW)],
  ]);
  const times = timeInTurns(tasks, rounds);
  const baseline = { name: 'a handshake', value: times.get('handshake') ?? 0 };
  for (const what of ['take', 'restore'] as const)
    yield compare(
      `${name}: ${what}`,
      'us',
      'lower',
      times.get(what) ?? 0,
      baseline,
      name === 'idle' ? atMost(1) : undefined,
    );
}

/** Two ends without anything in between. */
function connect(): Pair {
  const client = createSession({ ...OPTIONS, role: 'client' });
  const server = createServerSession({ ...OPTIONS, role: 'server' });
  const pair: Pair = { client, server, written: 0, asked: 0 };
  client.handleConnected(0);
  server.handleConnected(0);
  settle(pair);
  return pair;
}

/** Hands over frames until neither end has any. */
function settle(pair: Pair): void {
  const { client, server } = pair;
  const pass = (from: SessionCore, to: SessionCore): boolean => {
    const frame = from.pollTransmit();
    if (frame === undefined) return false;
    pair.written += frame.length;
    to.handleMessage(frame, 0);
    return true;
  };
  for (let isBusy = true; isBusy; ) {
    isBusy = pass(client, server);
    for (let event = server.pollEvent(); event !== undefined; event = server.pollEvent()) {
      if (event.type === 'hello') server.accept('sess_0123456789', 0);
      if (event.type === 'request') pair.asked = event.streamId;
      if ('body' in event)
        server.channel.consume('streamId' in event ? event.streamId : 0, event.body.charge);
    }
    isBusy = pass(server, client) || isBusy;
    while (client.pollEvent() !== undefined);
  }
}

const CODER = createBodyCoder({
  algorithms: ['BROTLI', 'NONE'],
  limits: OPTIONS.limits,
  encoding: undefined,
  security: undefined,
  context: { maxMessageSize: OPTIONS.limits.maxMessageSize },
  yield: () => Promise.resolve(),
});

/** A reply whose last parts the client has not acknowledged. */
function streaming(): Pair {
  const pair = connect();
  pair.client.channel.request(CODER.encode('tell me a story', {}));
  settle(pair);
  pair.written = 0;
  for (let i = 0; i < TOKENS; i++) pair.server.channel.chunk(pair.asked, CODER.encode(' once', {}));
  for (let frame = pair.server.pollTransmit(); frame !== undefined; frame = pair.server.pollTransmit())
    pair.written += frame.length;
  return pair;
}

/** Requests that repeat the whole history, each with a short answer. */
function chatting(requests: readonly string[]): Pair {
  const pair = connect();
  for (const request of requests) {
    pair.client.channel.request(CODER.encode(request, {}));
    settle(pair);
    pair.server.channel.respond(pair.asked, CODER.encode('the answer', {}));
    settle(pair);
  }
  return pair;
}
