import { EventEmitter, once } from 'node:events';
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { Deviation, must } from './deviation.js';
import { join } from './frames.js';
import { bodyOf, closeRecord, RecordReader, recordOf } from './records.js';
import { A_WHILE, Changes } from './waiting.js';
import { type Closed, type Incoming, type Socket, Wire } from './wire.js';

/** The kit as a client over HTTP (section 18). */

const OCTETS = { 'content-type': 'application/octet-stream' };
const ABNORMAL = 1006;

export interface Post {
  readonly body?: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
}

/** Begins a request to the endpoint whose WebSockets have this URL. @param name `stream` or `frames` */
export function requestTo(
  url: string,
  name: string,
  { headers = {}, method = 'POST' }: Post = {},
): ClientRequest {
  const target = new URL(url.replace(/^ws/, 'http'));
  target.pathname += `/${name}`;
  const request = httpRequest(target, { method, headers: { ...OCTETS, ...headers }, agent: false });
  request.on('error', () => {});
  return request;
}

/** The answer to a request, whose body is read and dropped. @throws {Deviation} if it does not come. */
export function answerTo(request: ClientRequest, timeoutMs: number): Promise<Answer> {
  const answered = answerOf(request, timeoutMs);
  // A scenario may wait for something else first.
  answered.catch(() => {});
  return answered;
}

async function answerOf(request: ClientRequest, timeoutMs: number): Promise<Answer> {
  const response = await responseTo(request, timeoutMs);
  response.on('error', () => {}).resume();
  return { status: response.statusCode ?? 0, headers: response.headers };
}

async function responseTo(request: ClientRequest, timeoutMs: number): Promise<IncomingMessage> {
  try {
    const [response] = await once(request, 'response', { signal: AbortSignal.timeout(timeoutMs) });
    return response as IncomingMessage;
  } catch (error) {
    request.destroy();
    throw new Deviation(`the request ${request.path} got no answer: ${(error as Error).message}`);
  }
}

export async function post(url: string, name: string, given: Post, timeoutMs: number): Promise<Answer> {
  const request = requestTo(url, name, given);
  request.end(given.body ?? new Uint8Array());
  return await answerTo(request, timeoutMs);
}

/** A stream of the kit, with the interface of a WebSocket. */
export class DialedStream extends EventEmitter implements Socket {
  readonly OPEN = 1;
  readyState = 0;
  readonly protocol = '';
  readonly extensions = '';
  readonly url: string;
  readonly #timeoutMs: number;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #request: ClientRequest;
  /** Head of the response. */
  answer: Answer = { status: 0, headers: {} };
  /** The first record, by which requests find the stream. */
  key: Uint8Array = new Uint8Array();
  /** Of the last request. */
  number = 0;
  #queue: Uint8Array[] = [];
  #isPosting = false;
  /** The code and reason with which the kit has closed it. */
  #closing: Closed | undefined;
  /** The code and reason with which the server has closed it. */
  #closed: Closed | undefined;

  private constructor(url: string, timeoutMs: number, headers: Readonly<Record<string, string>>) {
    super();
    this.url = url;
    this.#timeoutMs = timeoutMs;
    this.#headers = headers;
    this.#request = requestTo(url, 'stream', { headers });
  }

  /**
   * Opens a stream, up to its key.
   *
   * @param hello frames in the body of the request.
   * @throws {Deviation}
   */
  static async open(
    url: string,
    timeoutMs: number,
    hello: readonly Uint8Array[] = [],
    headers: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly stream: DialedStream; readonly wire: Wire }> {
    const stream = new DialedStream(url, timeoutMs, headers);
    const wire = new Wire(stream, timeoutMs);
    stream.once('deviation', (error) => wire.changes.fail(error));
    stream.#request.end(join(...hello.map(recordOf)));
    try {
      await stream.#read();
    } catch (error) {
      stream.terminate();
      throw error;
    }
    return { stream, wire };
  }

  async #read(): Promise<void> {
    const response = await responseTo(this.#request, this.#timeoutMs);
    this.answer = { status: response.statusCode ?? 0, headers: response.headers };
    must(this.answer.status === 200, `POST …/stream is answered with ${this.answer.status}, expected 200`);
    const changes = new Changes(this.#timeoutMs);
    const records = new RecordReader({
      onFrame: (frame) => {
        must(this.#closed === undefined, 'a frame behind the close of the server', frame);
        if (this.readyState !== 0) return void this.emit('message', Buffer.from(frame), true);
        this.key = frame;
        this.readyState = 1;
      },
      onClose: (closed) => {
        if (closed.code !== 0) this.#closed ??= closed;
      },
    });
    response.on('error', () => {});
    response.on('data', (chunk: Buffer) => {
      try {
        records.push(chunk);
      } catch (error) {
        changes.fail(error);
        this.emit('deviation', error);
        response.destroy();
      }
      changes.notify();
    });
    response.on('close', () => {
      if (this.readyState === 0)
        changes.fail(new Deviation('the response of a stream has ended without a key'));
      this.readyState = 3;
      const { code, reason } = this.#closed ?? this.#closing ?? { code: ABNORMAL, reason: '' };
      this.emit('close', code, Buffer.from(reason));
    });
    await changes.until(() => (this.readyState === 0 ? undefined : true), 'the key of a stream');
  }

  send(message: Incoming): void {
    this.#queue.push(Buffer.from(message));
    void this.#post();
  }

  /** One request at a time: what comes meanwhile goes with the next one. */
  async #post(): Promise<void> {
    if (this.#isPosting || this.readyState !== 1) return;
    this.#isPosting = true;
    // The frames of one task travel together.
    await Promise.resolve();
    while (this.readyState === 1 && (this.#queue.length > 0 || this.#closing !== undefined)) {
      const isLast = this.#closing !== undefined;
      const tail = this.#closing === undefined ? [] : closeRecord(this.#closing.code, this.#closing.reason);
      const body = join(bodyOf(++this.number, this.key, ...this.#queue.splice(0)), tail);
      const answer = await this.post(body).catch(() => undefined);
      if (isLast) break;
      if (answer?.status === 204) continue;
      // The server's code of the close may be under way.
      setTimeout(() => this.terminate(), A_WHILE).unref();
      return;
    }
    this.#isPosting = false;
  }

  /** Sends a request with frames as it is. */
  async post(body: Uint8Array, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    const all = { ...this.#headers, ...headers };
    return await post(this.url, 'frames', { body, headers: all }, this.#timeoutMs);
  }

  close(code: number, reason = ''): void {
    if (this.#closing !== undefined) return;
    this.#closing = { code, reason };
    void this.#post();
  }

  terminate(): void {
    this.#request.destroy();
  }
}
