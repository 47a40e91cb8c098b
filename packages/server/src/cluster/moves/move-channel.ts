import { CloseCode, ProtocolError } from '@parlance/protocol';
import { type DialOptions, dial, type ServerWire } from '../../http/ws.js';
import {
  decodeMoveMessage,
  encodeMoveMessage,
  type MoveMessage,
  type MoveMessageOf,
} from './move-message.js';

/** How long each step of a move may take, in milliseconds. */
export const STEP_MS = 5_000;
/** Time to read what has arrived, in milliseconds. */
export const GRACE_MS = 20;
/** Bytes of a snapshot in one message, and of those that wait to be written. */
export const PIECE_SIZE = 64 * 1024;
const MAX_BUFFERED = 1024 * 1024;
/** Answers that may wait: one, and a refusal. */
const MAX_ANSWERS = 2;

export type MoveDialing = DialOptions & { readonly url: string };

/** A connection on which this node hands sessions over to another one, one after the other. */
export class MoveChannel {
  readonly #wire: ServerWire;
  readonly #received: MoveMessage[] = [];
  #failure: ProtocolError | undefined;
  #wake: () => void = () => {};

  private constructor(wire: ServerWire) {
    this.#wire = wire;
    wire.listen({
      onMessage: (data) => this.#handleMessage(data),
      onDrain: () => this.#wake(),
      onClose: (code, reason) => this.#fail(broken(`${code} ${reason}`)),
      onFault: () => this.#fail(broken('writing has failed')),
      onControl() {},
      onData() {},
    });
  }

  /** @throws {ProtocolError} `connection_failed` or `timeout`. */
  static async open({ url, ...options }: MoveDialing): Promise<MoveChannel> {
    let abandon = () => {};
    const opened = new Promise<MoveChannel>((resolve, reject) => {
      abandon = dial(
        url,
        options,
        (wire) => resolve(new MoveChannel(wire)),
        ({ status, code }) => reject(broken(code ?? `HTTP ${status}`)),
      );
    });
    return await within(opened, 'connecting to the node', abandon);
  }

  /** Nothing is under way, and the connection is good. */
  get isIdle(): boolean {
    return this.#failure === undefined && this.#received.length === 0;
  }

  /** @throws {MoveRefused} @throws {ProtocolError} `bad_message` if the other node answers before it is asked. */
  send(message: MoveMessage): void {
    const [early] = this.#received;
    if (early?.type === 'refused') throw new MoveRefused(early);
    if (early !== undefined) throw new ProtocolError('bad_message', 'a node answers before it is asked');
    this.#wire.send(encodeMoveMessage(message));
  }

  /** @throws {ProtocolError} `connection_failed` or `timeout`. */
  async sendBytes(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += PIECE_SIZE) {
      this.#wire.send(bytes.subarray(at, at + PIECE_SIZE));
      while (this.#wire.bufferedAmount > MAX_BUFFERED) await this.#next('sending the session');
    }
  }

  /** @throws {ProtocolError} the refusal of the other node; `connection_failed`, `timeout`, `bad_message`. */
  async expect<Type extends MoveMessage['type']>(type: Type): Promise<MoveMessageOf<Type>> {
    while (this.#received.length === 0) await this.#next('an answer of the node');
    const message = this.#received.shift() as MoveMessage;
    if (message.type === 'refused') throw new MoveRefused(message);
    if (message.type === type) return message as MoveMessageOf<Type>;
    throw new ProtocolError('bad_message', `a node answered with ${message.type} and not with ${type}`);
  }

  close(): void {
    this.#wire.close(CloseCode.NORMAL, '');
    setTimeout(() => this.#wire.terminate(), STEP_MS).unref();
  }

  async #next(what: string): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    await within(woken, what, () => {});
  }

  #handleMessage(data: Uint8Array | string): void {
    if (this.#failure !== undefined) return;
    try {
      if (this.#received.length >= MAX_ANSWERS)
        throw new ProtocolError('bad_message', 'a node answers more often than it is asked');
      this.#received.push(decodeMoveMessage(data));
      this.#wake();
    } catch (error) {
      this.#fail(error as ProtocolError);
      this.#wire.terminate();
    }
  }

  #fail(error: ProtocolError): void {
    this.#failure ??= error;
    this.#wake();
  }
}

/** The other node does not take the session, and has forgotten what it knows of it. */
export class MoveRefused extends Error {
  readonly code: string;

  constructor({ code, message }: MoveMessageOf<'refused'>) {
    super(message);
    this.code = code;
  }
}

/** @throws {ProtocolError} `timeout`, after `onLate`. */
export async function within<Value>(
  promise: Promise<Value>,
  what: string,
  onLate: () => void,
  ms = STEP_MS,
): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const expire = () => {
      reject(new ProtocolError('timeout', `${what} took more than ${ms} ms`));
      onLate();
    };
    // In a process that was busy for so long, the answer may wait to be read.
    timer = setTimeout(() => {
      timer = setTimeout(expire, GRACE_MS);
    }, ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function broken(why: string): ProtocolError {
  return new ProtocolError('connection_failed', `the connection to the node broke: ${why.slice(0, 200)}`);
}
