import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { constants, createGzip, gunzip } from 'node:zlib';
import { loadEncoding } from '@parlance/protocol';
import { eventsOf, piecesOf } from '../gateway/events.js';
import type { ChatTurn } from '../gateway/turns.js';

/** The default level of gzip, and of servers. */
export const LEVEL = 6;

/** Stands in for a model, which writes an event when its reader has the one before. */
export interface Model extends AsyncDisposable {
  readonly port: number;
  /** The reader of the present answer has so many events. */
  heard(events: number): void;
}

/** @param beforeEach awaited before every event: the time that a model takes. */
export async function createModel(
  turns: readonly ChatTurn[],
  beforeEach: () => Promise<void>,
): Promise<Model> {
  const encoding = await loadEncoding('O200K_BASE');
  const answers = new Map(turns.map(({ request, answer }) => [request, answer]));
  let waiting = { for: Infinity, go: () => {} };
  let heard = 0;
  const isHeard = (events: number) =>
    new Promise<void>((go) => {
      waiting = { for: events, go };
      if (heard >= events) go();
    });

  const server = createServer(async (request, response) => {
    const body =
      request.headers['content-encoding'] === 'gzip'
        ? (await promisify(gunzip)(Buffer.concat(await request.toArray()))).toString()
        : await text(request);
    const answer = answers.get(body);
    if (answer === undefined) return void response.writeHead(404).end();
    heard = 0;
    const isCompressed = request.headers['accept-encoding']?.includes('gzip') ?? false;
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'x-request-id': 'req_0123456789abcdef0123456789abcdef',
      ...(isCompressed && { 'content-encoding': 'gzip' }),
    });
    const writer = isCompressed ? compressed(response) : plain(response);
    const events = eventsOf(piecesOf(answer, encoding));
    for (const [i, event] of events.entries()) {
      await isHeard(i);
      await beforeEach();
      await writer.write(event);
    }
    await isHeard(events.length);
    await writer.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    heard(events) {
      heard = events;
      if (heard >= waiting.for) waiting.go();
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Writer {
  write(event: string): Promise<void>;
  end(): Promise<void>;
}

function plain(response: ServerResponse): Writer {
  return {
    write: async (event) => void response.write(event),
    end: async () => void response.end(),
  };
}

/** Flushes after each event, as otherwise its reader waits for it; each flush is one chunk of HTTP. */
function compressed(response: ServerResponse): Writer {
  const gzip = createGzip({ level: LEVEL });
  let output: Buffer[] = [];
  gzip.on('data', (piece: Buffer) => output.push(piece));
  const taken = () => {
    const all = Buffer.concat(output);
    output = [];
    return all;
  };
  return {
    async write(event) {
      gzip.write(event);
      await new Promise<void>((resolve) => gzip.flush(constants.Z_SYNC_FLUSH, resolve));
      response.write(taken());
    },
    async end() {
      gzip.end();
      await once(gzip, 'end');
      response.end(taken());
    },
  };
}
