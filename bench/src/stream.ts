import { connect, type Session } from '@parlance/client';
import WebSocket from 'ws';
import { type Child, startChild } from '../../scripts/child-process.js';
import { askForEvents } from './context/ways.js';
import { atMost, type BenchOptions, compare, type Row } from './row.js';
import { median } from './statistics.js';
import type { Far, ModelCommands } from './stream/server.js';

/**
 * Token streams through the public API over real sockets: bytes per token on the server's socket, including
 * WebSocket frames, against server-sent events; and the time between tokens against a bare `ws` relay, in
 * turns. Acknowledgements travel the other way and are not counted.
 */

const TOKENS = 1000;
/** The pace of a fast model. */
const INTERVAL_MS = 4;
/** Nine or ten tokens. */
const BATCH_BYTES = 21;

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const model = startChild<ModelCommands>(
    new URL('./stream/server.ts', import.meta.url),
    [TOKENS, INTERVAL_MS, BATCH_BYTES].map(String),
  );
  try {
    const ids = await model.call('ids');
    const session = await connect(`ws://127.0.0.1:${await model.call('port', 'session')}/session`, {
      WebSocket,
    });
    yield* bytes(model, session, ids);
    yield* cpu(model, session, quick ? 5 : 20);
    yield* gaps(model, session, quick ? 2 : 6);
    await session.close();
  } finally {
    model.stop();
  }
}

async function* bytes(
  model: Child<ModelCommands>,
  session: Session,
  ids: readonly number[],
): AsyncGenerator<Row> {
  const written = async (far: Far, work: () => Promise<unknown>): Promise<number> => {
    const before = await model.call('written', far);
    await work();
    return (await model.call('written', far)) - before;
  };
  const port = await model.call('port', 'sse');
  const sse = (await written('sse', () => askForEvents(port))) / ids.length;
  const read = async (how: string) => {
    const got: number[] = [];
    let parts = 0;
    for await (const part of session.stream(how)) {
      parts++;
      got.push(...(part.tokens ?? []));
    }
    if (got.join() !== ids.join()) throw new Error('the received tokens differ from those sent');
    return parts;
  };
  const alone = (await written('session', () => read('tokens'))) / ids.length;
  yield compare('a token by itself', 'B', 'lower', alone, { name: 'sse', value: sse }, within(alone, 8));
  let parts = 0;
  const batched =
    (await written('session', async () => {
      parts = await read('batched');
    })) / ids.length;
  const size = (ids.length / parts).toFixed(1);
  yield compare(
    `a token in batches of ${size}`,
    'B',
    'lower',
    batched,
    { name: 'sse', value: sse },
    within(batched, 3),
  );

  const chunks = await model.call('chunks');
  const chunked = await written('session', async () => {
    let at = 0;
    for await (const part of session.stream('chunks')) {
      if (part.text !== chunks[at++]) throw new Error(`chunk ${at} arrived as ${part.text}`);
    }
    if (at !== chunks.length) throw new Error(`${at} of ${chunks.length} chunks arrived`);
  });
  const value = chunked / chunks.length;
  const name = `one of ${chunks.length} OpenAI chunks, as JSON`;
  yield compare(
    name,
    'B',
    'lower',
    value,
    { name: 'sse', value: (sse * ids.length) / chunks.length },
    within(value, 15),
  );
  const json = chunks.reduce((sum, chunk) => sum + Buffer.byteLength(chunk), 0) / chunks.length;
  yield compare(name, 'B', 'lower', value, { name: 'json', value: json });
}

const within = (value: number, bound: number) => () => ({ text: `<= ${bound} B`, met: value <= bound });

/** CPU time of the model's process per token, at full speed. */
async function* cpu(model: Child<ModelCommands>, session: Session, rounds: number): AsyncGenerator<Row> {
  const socket = await openSocket(await model.call('port', 'ws'));
  const port = await model.call('port', 'sse');
  const ways = {
    session: () => drain(session, 'tokens'),
    ws: () => relayed(socket, 'tokens'),
    sse: () => askForEvents(port),
  };
  const found = { session: [] as number[], ws: [] as number[], sse: [] as number[] };
  for (let round = -2; round < rounds; round++) {
    for (const name of ['session', 'ws', 'sse'] as const) {
      const before = await model.call('cpu');
      await ways[name]();
      if (round >= 0) found[name].push(((await model.call('cpu')) - before) / TOKENS);
    }
  }
  socket.close();
  for (const baseline of ['ws', 'sse'] as const) {
    yield compare('a token by itself, server CPU', 'us/msg', 'lower', median(found.session), {
      name: baseline,
      value: median(found[baseline]),
    });
  }
}

/** Milliseconds between one token and the next. */
async function* gaps(model: Child<ModelCommands>, session: Session, rounds: number): AsyncGenerator<Row> {
  const socket = await openSocket(await model.call('port', 'ws'));
  const found = { session: [] as number[], ws: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? (['session', 'ws'] as const) : (['ws', 'session'] as const);
    for (const name of order) {
      found[name].push(
        ...(name === 'session' ? await drain(session, 'paced') : await relayed(socket, 'paced')),
      );
    }
  }
  socket.close();
  const [ours, theirs] = [found.session.toSorted((a, b) => a - b), found.ws.toSorted((a, b) => a - b)];
  const rank = (sorted: readonly number[], share: number) =>
    sorted[Math.floor(sorted.length * share)] as number;
  const p50 = { value: rank(ours, 0.5), baseline: rank(theirs, 0.5) };
  yield compare(
    'time between tokens, p50',
    'ms',
    'lower',
    p50.value,
    { name: 'ws', value: p50.baseline },
    () => ({
      text: '<= +0.5 ms',
      met: p50.value - p50.baseline <= 0.5,
    }),
  );
  yield compare(
    'time between tokens, p99',
    'ms',
    'lower',
    rank(ours, 0.99),
    { name: 'ws', value: rank(theirs, 0.99) },
    atMost(1.5),
  );
}

async function drain(session: Session, how: string): Promise<number[]> {
  const between: number[] = [];
  let last: number | undefined;
  for await (const part of session.stream(how)) {
    void part.tokens;
    const now = performance.now();
    if (last !== undefined) between.push(now - last);
    last = now;
  }
  return between;
}

async function relayed(socket: WebSocket, how: string): Promise<number[]> {
  const between: number[] = [];
  let last: number | undefined;
  return await new Promise((resolve) => {
    const take = (_data: unknown, isBinary: boolean) => {
      if (!isBinary) {
        socket.off('message', take);
        resolve(between);
        return;
      }
      const now = performance.now();
      if (last !== undefined) between.push(now - last);
      last = now;
    };
    socket.on('message', take);
    socket.send(how);
  });
}

async function openSocket(port: number): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { perMessageDeflate: false });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  return socket;
}
