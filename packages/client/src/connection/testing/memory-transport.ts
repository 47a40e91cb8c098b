import { CloseCode } from '@parlance/protocol';
import type { Wire } from '@parlance/protocol/client';
import { connectionFailure } from '../cannot-connect.js';
import type { ClientTransport, ConnectionEvents, Frame, TransportName } from '../transport.js';

/** A connection within one process, whose other end is the test. */
export class MemoryConnection implements Wire {
  readonly bufferedAmount = 0;
  /** The frames that the client has sent, HELLO of the request first if the test has said that it arrived. */
  readonly sent: Frame[] = [];
  closedWith: number | undefined;
  isOver = false;
  readonly #url: URL;
  readonly #hello: Frame | undefined;
  readonly #events: ConnectionEvents;
  readonly #name: TransportName;

  constructor(name: TransportName, url: URL, hello: Frame | undefined, events: ConnectionEvents) {
    this.#name = name;
    this.#url = url;
    this.#hello = hello;
    this.#events = events;
  }

  // --- the end of the client

  send(frame: Frame): void {
    if (!this.isOver) this.sent.push(frame.slice());
  }
  close(code: number): void {
    this.closedWith ??= code;
  }

  // --- the other end

  /** The connection opens, and the other end has read HELLO if it came with the request. */
  open(): void {
    if (this.#hello !== undefined) this.sent.push(this.#hello.slice());
    this.#events.onOpen(this.#hello !== undefined);
  }
  receive(frame: Frame): void {
    this.#events.onMessage(frame.slice());
  }
  /** The connection is lost or refused. */
  lose(code: number = CloseCode.ABNORMAL, reason = ''): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#events.onClose(code, reason, () =>
      this.#hello === undefined || this.#name === 'http'
        ? connectionFailure(this.#url, `${this.#name === 'http' ? 'http: ' : ''}the test has refused it`)
        : undefined,
    );
  }
}

export interface MemoryOptions {
  /** HELLO travels with the request. @default false */
  readonly takesHello?: boolean;
  /** A connection that the client closes is over at once; otherwise the test loses it. @default false */
  readonly closesAtOnce?: boolean;
}

/** Connections that a test opens, reads and loses. */
export class MemoryTransport implements ClientTransport {
  readonly ifSilent = 'a test that does not open it gives none';
  readonly connections: MemoryConnection[] = [];
  readonly name: TransportName;
  readonly #options: MemoryOptions;

  constructor(options: MemoryOptions = {}, name: TransportName = 'websocket') {
    this.#options = options;
    this.name = name;
  }

  open(url: URL, hello: () => Frame | undefined, events: ConnectionEvents): Wire {
    const { takesHello = false, closesAtOnce = false } = this.#options;
    const connection = new MemoryConnection(this.name, url, takesHello ? hello() : undefined, events);
    this.connections.push(connection);
    if (closesAtOnce) {
      const close = connection.close.bind(connection);
      connection.close = (code) => {
        close(code);
        connection.lose(code);
      };
    }
    return connection;
  }
}
