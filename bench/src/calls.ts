import { once } from 'node:events';
import type { Profiler } from 'node:inspector/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { decodeControl, encodeControl, type HelloPayload, Subprotocol } from '@parlance/protocol';
import { createServer } from '@parlance/server';
import { WebSocket } from 'ws';
import { type Counter, startCounter } from './calls/counter.js';
import { countTrips } from './calls/trips.js';
import { type BenchOptions, compare, type Row } from './row.js';

/**
 * Counts the functions that a server calls for one connection, from its upgrade request until it is quiet after ACCEPT: those of
 * the server and of the protocol, and the files that they are in, by V8's coverage. The client is that of `ws`, which is not counted; nothing else happens
 * meanwhile. Then it counts how often both ends do the steps of an endpoint for a request and a message.
 */

/** Connections before those that are counted: they load code. */
const WARM_UP = 10;
/** Milliseconds for what follows ACCEPT. */
const SETTLED_MS = 150;
/** Of a resume. It took 950 while a session was made for each connection. */
const MOST_CALLS = 800;
const COUNTED = /\/packages\/(server|protocol)\//;

interface Counts {
  readonly calls: number;
  readonly files: number;
}

interface Resumable {
  readonly sessionId: string;
  readonly token: string;
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const server = createServer({ onSession() {} });
  const { url } = await server.listen({ port: 0 });
  const counter = await startCounter();
  try {
    const connects: Counts[] = [];
    const resumes: Counts[] = [];
    for (let round = 0; round < WARM_UP + (quick ? 5 : 15); round++) {
      const connected = await count(counter, url, hello());
      const { sessionId, token } = connected.session;
      const resumed = await count(counter, url, hello({ sessionId, token, received: 0, attempt: 1 }));
      if (resumed.session.sessionId !== sessionId) throw new Error('the session was not resumed');
      if (round < WARM_UP) continue;
      connects.push(connected.counts);
      resumes.push(resumed.counts);
    }
    const [connect, resume] = [median(connects), median(resumes)];
    const name = 'a new session';
    const target = { text: `<= ${MOST_CALLS} calls`, met: resume.calls <= MOST_CALLS };
    yield compare(
      'calls for a resume',
      '',
      'lower',
      resume.calls,
      { name, value: connect.calls },
      () => target,
    );
    yield compare('files for a resume', '', 'lower', resume.files, { name, value: connect.files });
    yield* countTrips(counter, quick ? 20 : 200);
  } finally {
    counter.stop();
    await server.close();
  }
}

function hello(resume?: HelloPayload['resume']): Uint8Array {
  const payload: HelloPayload = {
    ...{ shape: 'flat', version: '1.0', algorithms: ['NONE'], encodings: [], preferredEncoding: null },
    ...{ securityScanning: false, maxPayloadSize: 0, supportsStreaming: false, agentId: undefined },
    ...{ extensions: { link: '{}', resume: '{}' }, auth: undefined, resume },
  };
  return encodeControl({ type: 'HELLO', payload, sessionId: null, timestamp: Date.now() });
}

/** Opens a connection, says HELLO, cuts the connection and counts until ACCEPT was followed by nothing for a while. */
async function count(counter: Counter, url: string, hello: Uint8Array) {
  await counter.take();
  const socket = new WebSocket(url, Subprotocol.BINARY, { perMessageDeflate: false });
  await once(socket, 'open');
  socket.send(hello);
  const [frame] = (await once(socket, 'message')) as [Buffer];
  await pause(SETTLED_MS);
  const result = await counter.take();
  socket.terminate();
  await once(socket, 'close');
  await pause(SETTLED_MS);
  const { sessionId, payload } = decodeControl(frame) as {
    sessionId: string;
    payload: { resume: Resumable };
  };
  return { counts: countsOf(result), session: { sessionId, token: payload.resume.token } };
}

function countsOf(scripts: readonly Profiler.ScriptCoverage[]): Counts {
  const perFile = scripts
    .filter(({ url }) => COUNTED.test(url))
    .map(({ functions }) => functions.reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0));
  return {
    calls: perFile.reduce((sum, calls) => sum + calls, 0),
    files: perFile.filter((calls) => calls > 0).length,
  };
}

function median(all: readonly Counts[]): Counts {
  return [...all].sort((a, b) => a.calls - b.calls)[all.length >> 1] as Counts;
}
