import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import { type Logger, type ProtocolError, Subprotocol } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import { limitedLog } from '../../base/limited-log.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import { forbidden, type Refusal } from '../../transport/http/site.js';
import type { HttpHandler, PagePort } from '../../transport/http/status.js';
import { webSocketOptions } from '../../transport/http/upgrade.js';
import type { Feature, Figure, Labels } from '../features/feature.js';
import { NODE, type OwnHooks, type OwnHost, type ThisNode } from '../features/own-feature.js';
import { HttpStream, TAKEN } from './http-stream.js';
import { Upload, type UploadOptions } from './upload.js';

/** Bytes of frames that a client gathers for one request; the last one may go beyond. */
const MAX_GATHERED = 64 * 1024;
/** Bytes of the number of a request, which is a u32 before the key. */
const NUMBER_SIZE = 4;
const SECRET_SIZE = 16;
const MAX_HELLO_HEAD = 8;
/** A node in a key. */
const NODE_NAME = /^[A-Za-z0-9]{6}$/;

/** As other nodes name this feature. */
const SERVICE = 'http-stream';

/** A page of another origin may send the second one without asking first. */
const BODY = 'application/octet-stream';
const BODIES: ReadonlySet<string | undefined> = new Set([BODY, 'text/plain']);

const HEADERS = {
  'content-type': BODY,
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
};

/**
 * Sessions over HTTP, for clients in networks that forbid WebSockets: `POST <path>/stream` and `POST <path>/frames`, on the port of
 * `listen` and in `respond`. A server has it by default; see the option `transports`.
 *
 * With `cluster()`, each request of a client may reach another node; else all have to reach the same process.
 */
export function httpStream(): Feature {
  return { name: 'http-stream', after: [NODE], install: (host) => new HttpStreams(host as OwnHost) };
}

class HttpStreams implements OwnHooks {
  readonly figures: readonly Figure[] = [
    {
      name: 'http_streams',
      help: 'Connections over HTTP that are open.',
      read: (set) => set(this.#streams.size),
    },
  ];
  /** Of sessions whose connection is at this node. */
  readonly labels: Labels<ServerEndpoint> = {
    transport: ({ wire }) => (wire instanceof HttpStream ? 'http' : undefined),
  };
  readonly #host: OwnHost;
  readonly #log: Logger;
  readonly #node: ThisNode;
  /** By the hexadecimal form of their keys. */
  readonly #streams = new Map<string, HttpStream>();
  readonly #uploads = new Set<Upload>();
  readonly #maxFrames: Pick<UploadOptions, 'maxSize' | 'maxRecord'>;

  constructor(host: OwnHost) {
    const { maxPayload: maxRecord } = webSocketOptions(host.options);
    this.#maxFrames = { maxSize: MAX_GATHERED + maxRecord, maxRecord };
    this.#host = host;
    this.#log = limitedLog(host.options.logger);
    this.#node = host.use(NODE) as ThisNode;
    this.#node.pipes?.serve(SERVICE, (pipe, about) => this.#takePassed(pipe, about));
  }

  http(path: string, port: PagePort): HttpHandler | undefined {
    const { path: base } = this.#host;
    const isStream = path === `${base}/stream`;
    if (port === 'separate' || !(isStream || path === `${base}/frames`)) return undefined;
    if (!this.#host.options.overHttp) return (_request, response) => answer(response, 404);
    return (request, response) => (isStream ? this.#open(request, response) : this.#take(request, response));
  }

  #open(request: IncomingMessage, response: ServerResponse): void {
    const maxSize = this.#host.options.limits.maxHandshakeSize + MAX_HELLO_HEAD;
    if (!this.#isTakable(request, response, maxSize)) return;
    const arrival = this.#host.enter(request);
    if ('status' in arrival) {
      response.setHeader('retry-after', Math.ceil(arrival.retryAfterMs / 1000));
      return answer(response, arrival.status);
    }
    const refusal = arrival.refusal ?? refusalOf(request);
    const { origin } = request.headers;
    const key = Buffer.concat([randomBytes(SECRET_SIZE), Buffer.from(this.#node.incarnation)]);
    const stream = new HttpStream({
      response,
      headers: { ...HEADERS, ...(refusal === undefined && readableBy(origin)) },
      key,
      origin,
      closeTimeoutMs: this.#host.options.timers.closingTimeoutMs,
      onOver: () => this.#streams.delete(key.toString('hex')),
    });
    this.#streams.set(key.toString('hex'), stream);
    this.#host.begin(stream, { ...arrival, refusal }, Subprotocol.BINARY);
    this.#read(request, {
      stream,
      maxSize,
      maxRecord: maxSize,
      find: () => stream,
      onEnd: () => this.#answer(response, () => stream.open(systemClock.now())),
    });
  }

  /** Refuses a request by its head, or because its body has gone to another reader. */
  #isTakable(request: IncomingMessage, response: ServerResponse, maxSize: number): boolean {
    const { method, headers } = request;
    const type = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
    const coding = headers['content-encoding'] ?? 'identity';
    let status = 0;
    if (method !== 'POST') status = 405;
    else if (!BODIES.has(type) || coding !== 'identity') status = 415;
    else if (Number(headers['content-length'] ?? 0) > maxSize) status = 413;
    else if (request.readableDidRead) {
      status = 500;
      this.#log.error(
        { event: 'http.body_taken' },
        'other code has read the body of a request of a session, as a body parser does: call respond() before it',
      );
    }
    if (status === 405) response.setHeader('allow', 'POST');
    if (status !== 0) answer(response, status);
    return status === 0;
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    if (!this.#isTakable(request, response, this.#maxFrames.maxSize)) return;
    this.#read(request, {
      ...this.#maxFrames,
      find: (first) => {
        const found = this.#find(first, request.headers.origin);
        return found === 404 ? this.#pass(first, request) : this.#checked(found, request, response);
      },
      onEnd: (status, isPassed) =>
        this.#answer(response, () =>
          answer(response, isPassed ? this.#checked(status, request, response) : status),
        ),
    });
  }

  /** A request that has reached another node. */
  #takePassed(pipe: Duplex, about: string): void {
    const [origin] = JSON.parse(about) as readonly [string | null];
    this.#read(pipe, {
      ...this.#maxFrames,
      find: (first) => this.#find(first, origin ?? undefined),
      onEnd: (status) => void pipe.end(String(status)),
    });
  }

  /** The stream whose next request has this number and key as its first record, or the status of the answer. */
  #find(first: Uint8Array, origin: string | undefined): HttpStream | number {
    const bytes = Buffer.from(first);
    const stream = this.#streams.get(bytes.toString('hex', NUMBER_SIZE));
    if (stream === undefined) return 404;
    if (origin !== stream.options.origin) return 403;
    const number = bytes.readUInt32LE();
    if (number > stream.taken || (number === stream.taken && stream.isTaking)) return 409;
    if (number === stream.taken) return stream;
    // Browsers repeat a request by themselves.
    stream.handleControl();
    return TAKEN;
  }

  /** To the node that a key names, which knows whether there is such a stream. */
  #pass(first: Uint8Array, request: IncomingMessage): Duplex | number {
    const { pipes, incarnation } = this.#node;
    const node = Buffer.from(first).toString('latin1', NUMBER_SIZE + SECRET_SIZE);
    if (pipes === undefined || node === incarnation || !NODE_NAME.test(node)) return this.#refusal(request);
    // The engine is asked only as often as a client may open connections.
    const status = pipes.knows(node) ? 404 : this.#refusal(request);
    return status === 404 ? pipes.open(node, SERVICE, JSON.stringify([request.headers.origin])) : status;
  }

  /** A client that tries keys has the rate of one that opens connections. */
  #refusal(request: IncomingMessage): number {
    const arrival = this.#host.enter(request);
    return 'status' in arrival ? arrival.status : 404;
  }

  /** The page of the stream may read the answer. */
  #checked<Found>(found: Found | number, request: IncomingMessage, response: ServerResponse): Found | number {
    if (found === 404) return this.#refusal(request);
    if (found === 403 || response.headersSent) return found;
    // Responses of HTTP/2 have no function for several headers.
    for (const [name, value] of Object.entries(readableBy(request.headers.origin)))
      response.setHeader(name, value);
    return found;
  }

  /** Other code may have answered: a time limit before the body has arrived, or a framework that was left to answer as well. */
  #answer(response: ServerResponse, write: () => void): void {
    if (!response.headersSent) return write();
    this.#log.error(
      { event: 'http.answered' },
      'other code has answered a request of a session: leave it alone once respond() has returned true',
    );
    response.destroy();
  }

  #read(
    request: Readable,
    options: Pick<UploadOptions, 'stream' | 'maxSize' | 'maxRecord' | 'find' | 'onEnd'>,
  ): void {
    const upload: Upload = new Upload({
      ...options,
      request,
      timeoutMs: this.#host.options.timers.helloTimeoutMs,
      now: systemClock.now(),
      onOver: () => this.#uploads.delete(upload),
    });
    this.#uploads.add(upload);
  }

  tick(): void {
    const now = systemClock.now();
    for (const upload of this.#uploads) upload.handleTick(now);
    for (const stream of this.#streams.values()) stream.keepAlive(now);
  }

  close(_reason: ProtocolError): void {
    for (const stream of this.#streams.values()) stream.terminate();
  }
}

/** Any page can have a browser send its cookies. Browsers name the page, so one with cookies and without an origin is not of a browser. */
function refusalOf({ headers }: IncomingMessage): Refusal | undefined {
  if (headers.cookie === undefined || headers.origin !== undefined) return undefined;
  return forbidden('a request with cookies has to name its origin');
}

function readableBy(origin: string | undefined): Record<string, string> {
  if (origin === undefined) return {};
  return {
    'access-control-allow-origin': origin,
    'access-control-allow-credentials': 'true',
    vary: 'origin',
  };
}

function answer(response: ServerResponse, status: number): void {
  // The rest of a refused body is not read for long.
  if (status !== TAKEN) response.shouldKeepAlive = false;
  response.writeHead(status, {
    'cache-control': 'no-store',
    ...(status !== TAKEN && { 'content-length': 0 }),
  });
  response.end();
}
