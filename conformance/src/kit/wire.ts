import { Deviation, must } from './deviation.js';
import { Changes } from './waiting.js';

/** One connection with the peer: what arrives on it, in order. */

export interface Closed {
  readonly code: number;
  readonly reason: string;
}

export type Incoming = Uint8Array | string;

/** The carrier of a connection: a WebSocket, or a stream over HTTP. */
export interface Socket {
  readonly readyState: number;
  readonly OPEN: number;
  /** Empty over HTTP, as the extensions. */
  readonly protocol: string;
  readonly extensions: string;
  send(message: Incoming): void;
  /** Over HTTP it is sent as it is. */
  send(message: Incoming, options: { readonly binary?: boolean; readonly fin?: boolean }): void;
  close(code: number, reason: string): void;
  terminate(): void;
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): unknown;
  on(event: 'close', listener: (code: number, reason: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

export class Wire {
  readonly changes: Changes;
  readonly socket: Socket;
  /** Set once the connection is closed. */
  closed: Closed | undefined;
  /** Messages that no {@link onMessage} has taken. */
  readonly #inbox: Incoming[] = [];
  #handler: ((message: Incoming) => void) | undefined;
  #isCut = false;

  constructor(socket: Socket, timeoutMs: number) {
    this.socket = socket;
    this.changes = new Changes(timeoutMs);
    socket.on('message', (data: Buffer, isBinary: boolean) =>
      this.take(isBinary ? new Uint8Array(data) : data.toString()),
    );
    socket.on('error', () => {});
    socket.on('close', (code: number, reason: Buffer) => {
      this.closed = { code, reason: reason.toString() };
      this.changes.notify();
    });
  }

  /** A message of the peer has arrived. */
  take(message: Incoming): void {
    if (this.#isCut) return;
    if (this.#handler === undefined) this.#inbox.push(message);
    else this.#handler(message);
    this.changes.notify();
  }

  send(message: Incoming): void {
    if (this.socket.readyState === this.socket.OPEN) this.socket.send(message);
  }

  /** Hands every message to `handler` from now on, those that wait first. */
  onMessage(handler: (message: Incoming) => void): void {
    this.#handler = handler;
    for (const message of this.#inbox.splice(0)) if (!this.#isCut) handler(message);
  }

  /** The next message. @throws {Deviation} if the connection ends first, or nothing comes. */
  async next(what: string, timeoutMs?: number): Promise<Incoming> {
    return await this.changes.until(
      () => {
        const message = this.#inbox.shift();
        if (message === undefined && this.closed !== undefined)
          throw new Deviation(`the peer closed with ${named(this.closed)}, expected ${what}`);
        return message;
      },
      what,
      timeoutMs,
    );
  }

  /** Waits until the peer has closed. @param codes one of which it has to use; any if it is left out. */
  async end(codes: readonly number[] | undefined, why: string, timeoutMs?: number): Promise<Closed> {
    const wanted = codes === undefined ? 'a close' : `close ${codes.join(' or ')}`;
    const closed = await this.changes.until(() => this.closed, `${wanted} after ${why}`, timeoutMs);
    must(
      codes === undefined || codes.includes(closed.code),
      `the peer closed with ${named(closed)} after ${why}, expected ${wanted}`,
    );
    return closed;
  }

  /** Loses the connection, as a network does: what is under way in either direction is gone. */
  cut(): void {
    this.#isCut = true;
    this.#inbox.length = 0;
    this.socket.terminate();
  }

  close(code: number, reason = ''): void {
    this.socket.close(code, reason);
  }
}

export const named = ({ code, reason }: Closed): string =>
  reason === '' ? `${code}` : `${code} "${reason}"`;
