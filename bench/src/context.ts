import { brotliCompressSync, constants } from 'node:zlib';
import { type Child, startChild } from '../../scripts/child-process.js';
import { BestTimes } from './context/best-times.js';
import { inChromium } from './context/chromium.js';
import { createConversations } from './context/conversations.js';
import { createHistories, edited, type History, requestOf } from './context/histories.js';
import { fullContexts } from './context/memory.js';
import { busyRow, sizes } from './context/rows.js';
import type { FarCommands } from './context/server.js';
import { platform } from './context/subject.js';
import { askForEvents, openDeflate, openSession, type Way } from './context/ways.js';
import { atLeast, type BenchOptions, compare, type Row } from './row.js';

/**
 * Session context: a chat whose requests repeat the whole history, and a streamed answer, through the public
 * API over real sockets, against permessage-deflate, Brotli per message and server-sent events. Bytes are
 * counted at the server's sockets, including WebSocket frames.
 */

const CHUNKS = 1000;
const SESSIONS = 1000;
const WARM_UP_ROUNDS = 4;

export async function* run({ quick, conversation }: BenchOptions): AsyncGenerator<Row> {
  const far = startChild<FarCommands>(
    new URL('./context/server.ts', import.meta.url),
    [String(CHUNKS)],
    ['--expose-gc'],
  );
  try {
    await platform.loadZstd();
    const histories = createHistories(conversation);
    await warmUp(far, histories[0] as History);
    for (const history of histories) yield* requests(far, history, conversation !== undefined);
    if (conversation === undefined) yield* kinds(far);
    yield* times(far, histories, quick ? 3 : 7);
    yield* chunks(far);
    yield* inChromium(far, histories, conversation !== undefined, quick ? 3 : 5);
    yield* fullContexts(far, SESSIONS);
  } finally {
    far.stop();
  }
}

/** Warms up the JIT compilers of both ends: a cold run is several times slower. */
async function warmUp(far: Child<FarCommands>, { requests }: History): Promise<void> {
  const { port, ways } = await open(far);
  for (let round = 0; round < WARM_UP_ROUNDS; round++) {
    for (const { kind, create } of Object.values(ways)) {
      const way = await create(port[kind]);
      for (const text of requests) await way.ask(text);
      await way.close();
    }
  }
}

/** Bytes of a history's requests, for each way to send them. */
async function* requests(far: Child<FarCommands>, history: History, isGiven: boolean): AsyncGenerator<Row> {
  const json = history.requests.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  const { port, ways } = await open(far);
  const found = new Map<string, { readonly bytes: number; readonly cpu: number }>();
  for (const [name, { kind, create }] of Object.entries(ways)) {
    const way = await create(port[kind]);
    const before = await far.call('traffic', kind);
    const busy = await far.call('cpu');
    for (const text of history.requests) await way.ask(text);
    const cpu = (await far.call('cpu')) - busy;
    found.set(name, {
      bytes: (await far.call('traffic', kind)).read - before.read,
      cpu: cpu / history.requests.length,
    });
    await way.close();
  }
  const context = found.get('context') as { bytes: number; cpu: number };
  const name = `${history.requests.length} requests, ${history.name}`;
  yield* sizes(name, context.bytes, json, history, isGiven);
  for (const baseline of ['permessage-deflate', 'brotli q5']) {
    yield compare(name, 'B', 'lower', context.bytes, {
      name: baseline,
      value: found.get(baseline)?.bytes ?? Number.NaN,
    });
  }
  for (const baseline of ['permessage-deflate', 'brotli q5']) {
    yield compare(`${name}, server CPU`, 'us/msg', 'lower', context.cpu, {
      name: baseline,
      value: found.get(baseline)?.cpu ?? Number.NaN,
    });
  }
}

/** How many times fewer bytes than JSON conversations of different kinds take, and the worst of those not tuned on. */
async function* kinds(far: Child<FarCommands>): AsyncGenerator<Row> {
  const { port, ways } = await open(far);
  const worst = { appended: Infinity, edited: Infinity };
  for (const conversation of createConversations()) {
    for (const mode of ['appended', 'edited'] as const) {
      const texts = conversation.requests.map((messages, i) =>
        requestOf(mode === 'edited' ? edited(messages, i + 1) : messages),
      );
      const way = await ways.context.create(port.session);
      const before = await far.call('traffic', 'session');
      for (const text of texts) await way.ask(text);
      const bytes = (await far.call('traffic', 'session')).read - before.read;
      await way.close();
      const json = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
      if (!conversation.isTuned) worst[mode] = Math.min(worst[mode], json / bytes);
      const name = `${conversation.name}, ${mode}${conversation.isTuned ? ' (tuned on)' : ''}`;
      yield compare(name, 'B', 'lower', bytes, { name: 'json', value: json });
    }
  }
  for (const [mode, factor] of Object.entries(worst)) {
    yield compare(
      `worst of five not tuned on, ${mode}`,
      'x',
      'higher',
      factor,
      { name: 'json', value: 1 },
      atLeast(60),
    );
  }
}

/** How long sending a request keeps the sender busy, against Brotli of the same text. */
async function* times(
  far: Child<FarCommands>,
  histories: readonly History[],
  rounds: number,
): AsyncGenerator<Row> {
  const port = await far.call('port', 'session');
  for (const { name, requests } of histories) {
    const busy = new BestTimes();
    const brotli = new BestTimes();
    for (let round = 0; round < rounds; round++) {
      const way = await openSession(port, { context: true });
      for (const [i, text] of requests.entries()) {
        busy.add(i, await way.ask(text));
        // Brotli is slow; a few samples are enough.
        if (i % 4 === 0) brotli.add(i, timeBrotli(text));
      }
      await way.close();
    }
    yield busyRow(name, busy.median(), brotli.median());
  }
}

function timeBrotli(text: string): number {
  const start = performance.now();
  brotliCompressSync(Buffer.from(text), { params: BROTLI });
  return (performance.now() - start) * 1000;
}
const BROTLI = { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_LGWIN]: 22 };

/** Bytes per chunk of a streamed answer. */
async function* chunks(far: Child<FarCommands>): AsyncGenerator<Row> {
  const all = await far.call('chunks');
  const { port, ways } = await open(far, all.length);
  const perChunk = new Map<string, number>();
  for (const name of ['context', 'permessage-deflate'] as const) {
    const { kind, create } = ways[name];
    const way = await create(port[kind]);
    const before = await far.call('traffic', kind);
    await way.ask('stream');
    perChunk.set(name, ((await far.call('traffic', kind)).written - before.written) / all.length);
    await way.close();
  }
  const before = await far.call('traffic', 'sse');
  await askForEvents(port.sse);
  perChunk.set('sse', ((await far.call('traffic', 'sse')).written - before.written) / all.length);
  const coded = all.map((chunk) => brotliCompressSync(Buffer.from(chunk), { params: BROTLI }).length + FRAME);
  perChunk.set('brotli q5', coded.reduce((sum, length) => sum + length, 0) / all.length);
  perChunk.set('json', all.reduce((sum, chunk) => sum + Buffer.byteLength(chunk), 0) / all.length);
  const value = perChunk.get('context') as number;
  for (const [name, bytes] of perChunk) {
    if (name !== 'context') yield compare('a streamed chunk', 'B', 'lower', value, { name, value: bytes });
  }
}

/** WebSocket and link headers, and the length field that Brotli needs. */
const FRAME = 2 + 3 + 2;

async function open(far: Child<FarCommands>, answers = 1) {
  const port = {
    session: await far.call('port', 'session'),
    deflate: await far.call('port', 'deflate'),
    sse: await far.call('port', 'sse'),
  };
  const ways = {
    context: { kind: 'session', create: (at: number) => openSession(at, { context: true }) },
    'brotli q5': { kind: 'session', create: (at: number) => openSession(at, { context: false }) },
    'permessage-deflate': { kind: 'deflate', create: (at: number) => openDeflate(at, () => answers) },
  } as const satisfies Record<string, { kind: keyof typeof port; create: (at: number) => Promise<Way> }>;
  return { port, ways };
}
