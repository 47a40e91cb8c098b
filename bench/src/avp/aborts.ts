import { connect, type Session } from '@parlance/client';
import type { ReceivedTensor } from '@parlance/protocol';
import { createServer, tensors } from '@parlance/server';
import WebSocket from 'ws';
import { atMost, compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import { generate } from './generated.js';
import { watchMemory } from './memory.js';

const MIB = 2 ** 20;
const SIZE = 1024 * MIB;
/** Bytes that a transfer gets before one end aborts it. */
const BEGUN = 4 * MIB;
/** The most time that both ends together may spend. */
const MAX_MS = 50;
const MAX_MIB = 32;

/** A partly received tensor, and how its two ends abort it. */
interface Case {
  readonly name: string;
  readonly transfers: 'stream' | 'assemble';
  readonly end: (sender: AbortController, receiver: ReceivedTensor | undefined) => void;
}

const CASES: readonly Case[] = [
  {
    name: '1 GiB given up by its sender, streamed',
    transfers: 'stream',
    end: (sender) => sender.abort(),
  },
  {
    name: '1 GiB given up by its sender, assembled',
    transfers: 'assemble',
    end: (sender) => sender.abort(),
  },
  {
    name: '1 GiB given up by its receiver',
    transfers: 'stream',
    end: (_, receiver) => receiver?.chunks !== undefined && receiver.cancel(),
  },
];

/** Large tensors that are aborted half-way: the time and work until both ends have forgotten them. */
export async function* measureAborts(rounds: number): AsyncGenerator<Row> {
  for (const { name, transfers, end } of CASES) {
    await using ends = await setUp(transfers);
    const times: number[] = [];
    // The first run is for the JIT compiler.
    for (let round = 0; round <= rounds; round++) times.push(await giveUp(ends, end));
    const memory = watchMemory();
    await giveUp(ends, end);
    const peak = (memory.peak() - memory.base) / MIB;
    const time = { name: `${MAX_MS} ms`, value: MAX_MS };
    yield compare(name, 'ms', 'lower', median(times.slice(1)), time, atMost(1));
    const limit = { name: `${MAX_MIB} MiB`, value: MAX_MIB };
    yield compare(`${name}, memory`, 'MiB', 'lower', peak, limit, atMost(1));
  }
}

interface Ends extends AsyncDisposable {
  readonly client: Session;
  readonly server: Session;
  /** The last tensor that the server received. */
  received: ReceivedTensor | undefined;
}

async function setUp(transfers: 'stream' | 'assemble'): Promise<Ends> {
  const options = { algorithms: ['NONE'], encodings: [], limits: { bytesPerSecond: Infinity } } as const;
  let accept: (session: Session) => void = () => {};
  const accepted = new Promise<Session>((resolve) => {
    accept = resolve;
  });
  const server = createServer({
    ...options,
    features: [tensors({ transfers })],
    onSession: (session) => accept(session),
  });
  const { url } = await server.listen();
  const client = await connect(url, { ...options, WebSocket });
  const ends: Ends = {
    client,
    server: await accepted,
    received: undefined,
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
  void readAll(ends);
  return ends;
}

/** @returns milliseconds from the abort until neither end holds any of the tensor. */
async function giveUp(ends: Ends, end: Case['end']): Promise<number> {
  const { client, server } = ends;
  const controller = new AbortController();
  let start = Number.NaN;
  const sent = client.sendTensor(
    { data: generate(SIZE), shape: [SIZE], dtype: 'int8', payloadType: 'hidden_state' },
    {
      signal: controller.signal,
      onProgress(bytes) {
        if (bytes < BEGUN || !Number.isNaN(start)) return;
        start = performance.now();
        end(controller, ends.received);
      },
    },
  );
  await sent.then(
    () => {
      throw new Error('neither end aborted the transfer');
    },
    () => {},
  );
  while (client.stats().openStreams + server.stats().openStreams > 0) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  return performance.now() - start;
}

async function readAll(ends: Ends): Promise<void> {
  for await (const { tensor } of ends.server) {
    ends.received = tensor;
    try {
      for await (const chunk of tensor?.chunks ?? []) void chunk;
    } catch {
      // The rejection is expected.
    }
  }
}
