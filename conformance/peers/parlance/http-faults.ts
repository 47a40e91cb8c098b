import { once } from 'node:events';
import {
  type ClientRequest,
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from '../../src/kit/frames.js';
import { closeRecord, RecordReader, recordOf } from '../../src/kit/records.js';
import type { Faulty } from './faults.js';

/** Faults of our own peers over HTTP: a proxy in front of a server changes what one end says. */

const NUMBER_SIZE = 4;
/** Milliseconds that an answer may take. A scenario that holds it back waits longer. */
const HASTE_MS = 50;

/** Turns the bytes that arrive into those that are passed on. */
type Pass = (bytes: Uint8Array) => Uint8Array;

export interface HttpFault {
  /** Changes the head of a request. */
  readonly head?: (headers: IncomingHttpHeaders) => void;
  /** Changes the bodies of requests. */
  readonly up?: () => Pass;
  /** The body of a request is passed on when it is whole. */
  readonly isWhole?: true;
  /** Changes the body of the response of a stream. */
  readonly down?: () => Pass;
  /** Changes the status of an answer to a request with frames. */
  readonly status?: (status: number) => number;
  /** A request with frames counts as answered soon, even if the server refuses it. */
  readonly isHasty?: true;
}

interface Change {
  /** @default unchanged */
  frame?(frame: Uint8Array, index: number): Uint8Array;
  /** @returns whether the close is passed on. @default true */
  close?(code: number): boolean;
}

/** Changes records, which are passed on when they are whole. */
function inRecords(change: () => Change): () => Pass {
  return () => {
    const { frame = (bytes: Uint8Array) => bytes, close = () => true } = change();
    let out: Uint8Array[] = [];
    let index = 0;
    const reader = new RecordReader({
      onFrame: (bytes) => void out.push(recordOf(frame(bytes, index++))),
      onClose: ({ code, reason }) => void (close(code) && out.push(closeRecord(code, reason))),
    });
    return (bytes) => {
      reader.push(bytes);
      const passed = join(...out);
      out = [];
      return passed;
    };
  };
}

/** Changes the number of each request with frames. */
const inNumbers = (change: (number: number, key: string) => number) =>
  inRecords(() => ({
    frame(bytes, index) {
      const head = Buffer.from(bytes);
      // The body of a request for a stream begins with HELLO, a map.
      if (index > 0 || head[3] !== 0) return bytes;
      head.writeUInt32LE(change(head.readUInt32LE(), head.toString('hex', NUMBER_SIZE)));
      return head;
    },
  }));

const dropsCloses = inRecords(() => ({ close: (code) => code === 0 }));

/** An end that takes what arrives together for whole records. */
function takesReadsForRecords(): Pass {
  const reader = new RecordReader({ onFrame() {}, onClose() {} });
  return (bytes) => {
    reader.push(bytes);
    if (!reader.isComplete) throw new Error('half a record');
    return bytes;
  };
}

/** An end that takes a record which keeps the connection alive for a close. */
const diesOfKeepAlives = inRecords(() => ({
  close(code) {
    if (code === 0) throw new Error('closed with 0');
    return true;
  },
}));

/** Counts the requests of each stream itself, so that any number fits. */
function countsItself(): () => Pass {
  const counts = new Map<string, number>();
  return inNumbers((_number, key) => {
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    return count;
  });
}

export const HTTP_FAULTS: Readonly<Record<string, HttpFault>> = {
  // Of the server.
  ignores_numbers: { up: countsItself() },
  takes_any_key: { status: (status) => (status === 404 ? 204 : status) },
  waits_for_whole_requests: { isWhole: true },
  reads_whole_requests: { up: takesReadsForRecords },
  forgets_its_close: { down: dropsCloses },
  ignores_closes: { up: dropsCloses },
  admits_any_page: {
    head: (headers) => {
      delete headers.origin;
    },
  },
  takes_any_body: {
    head: (headers) => {
      headers['content-type'] = 'text/plain';
      delete headers['content-encoding'];
    },
  },
  // Of the client.
  counts_from_zero: { up: inNumbers((number) => number - 1) },
  sends_without_an_answer: { isHasty: true },
  reads_whole_chunks: { down: takesReadsForRecords },
  dies_of_keep_alives: { down: diesOfKeepAlives },
  believes_in_failed_requests: { status: () => 204 },
  // It refuses what it must with close codes, and ends sessions in order: other parts test that.
  ignores_close_codes: { down: inRecords(() => ({ close: (code) => code < 4_000 })) },
  says_no_close: { up: inRecords(() => ({ close: (code) => code !== 1_000 })) },
};

/** A proxy in front of a server, with the fault. WebSockets pass as they are. */
export async function startFaultyHttp(url: string, fault: HttpFault): Promise<Faulty> {
  const { port } = new URL(url);
  const front = createServer((request, response) => forward(Number(port), fault, request, response));
  front.on('upgrade', (request, near, head) => {
    const far = connect(Number(port), '127.0.0.1');
    const lines = [`${request.method} ${request.url} HTTP/1.1`];
    for (let at = 0; at < request.rawHeaders.length; at += 2)
      lines.push(`${request.rawHeaders[at]}: ${request.rawHeaders[at + 1]}`);
    far.write(`${lines.join('\r\n')}\r\n\r\n`);
    far.write(head);
    near.pipe(far).pipe(near);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const)
      one.on('error', () => {}).on('close', () => other.destroy());
  });
  await once(front.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `ws://127.0.0.1:${(front.address() as AddressInfo).port}/session`,
    async close() {
      front.closeAllConnections();
      await new Promise((resolve) => front.close(resolve));
    },
  };
}

function forward(port: number, fault: HttpFault, request: IncomingMessage, response: ServerResponse): void {
  const { method = 'POST', url: path = '/' } = request;
  const headers = { ...request.headers };
  fault.head?.(headers);
  // A body that is changed has another length.
  if (fault.up !== undefined) delete headers['content-length'];
  const far = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false });
  const fail = () => {
    far.destroy();
    response.destroy();
  };
  passRequest(request, far, fault, fail);
  far.on('error', () => response.destroy());
  response
    .on('error', () => {})
    .on('close', () => {
      if (!response.writableFinished) far.destroy();
    });
  const isStream = path.endsWith('/stream');
  far.on('response', (answer) => {
    if (isStream && answer.statusCode === 200) passStream(answer, response, fault, fail);
    else passAnswer(answer, response, fault);
  });
  if (fault.isHasty && !isStream)
    setTimeout(() => {
      if (!response.headersSent) response.writeHead(204).end();
    }, HASTE_MS);
}

function passRequest(
  request: IncomingMessage,
  far: ClientRequest,
  { up, isWhole }: HttpFault,
  fail: () => void,
): void {
  const change = up?.();
  const held: Uint8Array[] = [];
  request.on('data', (bytes: Buffer) => {
    try {
      const passed = change === undefined ? bytes : change(bytes);
      if (isWhole) held.push(passed);
      else far.write(passed);
    } catch {
      fail();
    }
  });
  request.on('end', () => far.end(join(...held)));
  request
    .on('error', () => {})
    .on('close', () => {
      if (!request.complete) far.destroy();
    });
  far.flushHeaders();
}

function passStream(
  answer: IncomingMessage,
  response: ServerResponse,
  { down }: HttpFault,
  fail: () => void,
): void {
  const change = down?.();
  response.useChunkedEncodingByDefault = false;
  response.shouldKeepAlive = false;
  response.writeHead(200, answer.headers);
  answer.on('data', (bytes: Buffer) => {
    try {
      response.write(change === undefined ? bytes : change(bytes));
    } catch {
      fail();
    }
  });
  answer
    .on('error', () => {})
    .on('close', () => {
      if (answer.complete) response.end();
      else response.destroy();
    });
}

function passAnswer(answer: IncomingMessage, response: ServerResponse, { status }: HttpFault): void {
  answer.on('error', () => {}).resume();
  const { statusCode = 502, headers } = answer;
  if (!response.headersSent) response.writeHead(status?.(statusCode) ?? statusCode, headers).end();
}
