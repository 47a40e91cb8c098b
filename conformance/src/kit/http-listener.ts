import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { Deviation, must } from './deviation.js';
import { closeRecord, RecordReader, recordOf } from './records.js';
import { type Closed, type Incoming, type Socket, Wire } from './wire.js';

/** The kit as a server over HTTP (section 18). */

const BODIES = new Set<string | undefined>(['application/octet-stream', 'text/plain']);
const HEADERS = {
  'content-type': 'application/octet-stream',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
};
const KEY_SIZE = 24;
const NUMBER_SIZE = 4;
const ABNORMAL = 1006;

/** A stream of a client under test, with the interface of a WebSocket. */
export class ServedStream extends EventEmitter implements Socket {
  readonly OPEN = 1;
  readyState = 1;
  readonly protocol = '';
  readonly extensions = '';
  readonly key = randomBytes(KEY_SIZE);
  /** Numbers of the requests with frames, in the order in which they came. */
  readonly numbers: number[] = [];
  /** The first thing that the client has done otherwise than it has to. */
  deviation: Deviation | undefined;
  /** The status of the next answers; the frames of such requests are dropped. */
  failsWith: number | undefined;
  /** Bytes that are written together, for the rest of the connection. @default all */
  pieces: number | undefined;
  readonly #response: ServerResponse;
  #writing = Promise.resolve();
  /** Answers that wait; `undefined` if none has to. */
  #held: (() => void)[] | undefined;
  #isTaking = false;
  #closing: Closed | undefined;

  constructor(response: ServerResponse) {
    super();
    this.#response = response;
    response.useChunkedEncodingByDefault = false;
    response.shouldKeepAlive = false;
    response.writeHead(200, HEADERS);
    response.on('error', () => {});
    response.on('close', () => this.#end(this.#closing ?? { code: ABNORMAL, reason: '' }));
    this.write(recordOf(this.key));
  }

  /** Sends bytes of the response: at once, so that they are on their way if the connection is cut, unless they go in pieces. */
  write(bytes: Uint8Array): void {
    if (this.pieces === undefined) this.#response.write(bytes);
    else this.#writing = this.#writing.then(() => this.#writeInPieces(bytes, this.pieces ?? bytes.length));
  }

  async #writeInPieces(bytes: Uint8Array, size: number): Promise<void> {
    for (let at = 0; at < bytes.length && this.readyState === 1; at += size) {
      this.#response.write(bytes.subarray(at, at + size));
      // Bytes that are written in one turn may travel together.
      await pause(1);
    }
  }

  send(message: Incoming): void {
    if (this.#closing === undefined) this.write(recordOf(Buffer.from(message)));
  }

  close(code: number, reason = ''): void {
    if (this.#closing !== undefined) return;
    this.#closing = { code, reason };
    this.write(closeRecord(code, reason));
    void this.#writing.then(() => this.#response.end());
  }

  /** Ends the response in order, but without a close. */
  leave(): void {
    void this.#writing.then(() => this.#response.end());
  }

  terminate(): void {
    // Bytes that were sent are under way, as over a WebSocket.
    this.#response.socket?.uncork();
    this.#response.destroy();
  }

  /** Leaves requests with frames unanswered until {@link answer}. */
  hold(): void {
    this.#held ??= [];
  }

  answer(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const each of held) each();
  }

  /** @throws {Deviation} if the client has not kept to the rules of requests. */
  check(): void {
    if (this.deviation !== undefined) throw this.deviation;
  }

  /** A request with frames has come. */
  take(
    number: number,
    frames: readonly Uint8Array[],
    closed: Closed | undefined,
    answer: (status: number) => void,
  ): void {
    const [isFirst, last] = [this.numbers.length === 0, this.numbers.at(-1) ?? 0];
    this.numbers.push(number);
    if (this.#isTaking)
      this.deviation ??= new Deviation('a request with frames before the last one was answered');
    // Runtimes may repeat a request by themselves.
    if (number === last && !isFirst) return answer(204);
    if (number !== last + 1)
      this.deviation ??= new Deviation(`a request has the number ${number}, expected ${last + 1}`);
    const { failsWith } = this;
    if (failsWith !== undefined) return answer(failsWith);
    this.#isTaking = true;
    const respond = () => {
      this.#isTaking = false;
      answer(204);
    };
    if (this.#held === undefined) respond();
    else this.#held.push(respond);
    for (const frame of frames) this.emit('message', Buffer.from(frame), true);
    if (closed !== undefined) this.#end(closed);
  }

  #end({ code, reason }: Closed): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.emit('close', code, Buffer.from(reason));
    this.leave();
  }
}

interface Read {
  readonly frames: Uint8Array[];
  readonly closed: Closed | undefined;
}

/** Takes the requests of clients under test. */
export class HttpListener {
  readonly #streams = new Map<string, ServedStream>();
  readonly #timeoutMs: number;
  readonly #onWire: (wire: Wire) => void;

  constructor(timeoutMs: number, onWire: (wire: Wire) => void) {
    this.#timeoutMs = timeoutMs;
    this.#onWire = onWire;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const answer = (status: number) => void response.writeHead(status).end();
    request.on('error', () => {});
    const name = /^\/session\/(stream|frames)$/.exec(request.url ?? '')?.[1];
    if (name === undefined) return answer(404);
    this.#read(request).then(
      (read) => (name === 'stream' ? this.#open(request, read, response) : this.#take(read, answer)),
      // It breaks off, or is not made of records: the client finds its connection lost.
      () => answer(400),
    );
  }

  async #read(request: IncomingMessage): Promise<Read> {
    const frames: Uint8Array[] = [];
    let closed: Closed | undefined;
    const records = new RecordReader({
      onFrame: (frame) => void frames.push(frame),
      onClose: (each) => {
        if (each.code !== 0) closed ??= each;
      },
    });
    for await (const chunk of request) records.push(chunk as Buffer);
    must(records.isComplete, 'the body of a request ends inside a record');
    return { frames, closed };
  }

  #open({ method, headers }: IncomingMessage, { frames }: Read, response: ServerResponse): void {
    const stream = new ServedStream(response);
    this.#streams.set(stream.key.toString('hex'), stream);
    const deviates = (why: string) => {
      stream.deviation ??= new Deviation(why);
    };
    const type = headers['content-type']?.split(';', 1)[0];
    if (method !== 'POST') deviates(`the method of the request for a stream is ${method}`);
    if (!BODIES.has(type)) deviates(`the content type of the request for a stream is ${type}`);
    if (headers['content-encoding'] !== undefined) deviates('the request for a stream has a coding');
    if (frames.length > 1) deviates('the request for a stream has frames behind HELLO');
    const wire = new Wire(stream, this.#timeoutMs);
    for (const frame of frames) wire.take(frame);
    this.#onWire(wire);
  }

  #take({ frames, closed }: Read, answer: (status: number) => void): void {
    const [first, ...others] = frames;
    const head = Buffer.from(first ?? new Uint8Array());
    const stream = this.#streams.get(head.toString('hex', Math.min(NUMBER_SIZE, head.length)));
    if (stream === undefined || stream.readyState !== 1) return answer(404);
    stream.take(head.readUInt32LE(), others, closed, answer);
  }

  /** Ends all streams, as a network does. */
  cut(): void {
    for (const stream of this.#streams.values()) stream.terminate();
    this.#streams.clear();
  }
}
