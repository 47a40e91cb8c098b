import { CloseCode, HELLO_OFFER, HELLO_READ, notify } from '@parlance/protocol/client';
import type { Direction } from '@parlance/protocol/inspect';
import type { ClientTransport, Frame, WatchingClass } from '../connection/transport.js';
import type { WebSocketConstructor } from '../connection/web-socket.js';

/**
 * Learns of everything that happens on the sockets of one class, and on connections over HTTP of a client with that class. Connections
 * count from 1.
 */
export interface SocketWatcher {
  /** @param url begins with `http:` or `https:` if the connection is over HTTP. */
  onOpening(connection: number, url: string): void;
  onOpen(connection: number): void;
  /** A frame, before the client handles it or after it has given it away. Its bytes do not change afterwards. */
  onFrame(connection: number, direction: Direction, frame: Uint8Array | string): void;
  onClosed(connection: number, code: number, reason: string): void;
}

/**
 * A WebSocket class that reports to `watcher`. The session does not notice: an error of the watcher is printed, once.
 *
 * @param WebSocket the class to extend: that of the runtime, that of `ws`, or one that is watched already.
 */
export function watchSockets(WebSocket: WebSocketConstructor, watcher: SocketWatcher): WebSocketConstructor {
  let connections = 0;
  const { watchTransport = (each) => each } = WebSocket as Partial<WatchingClass>;
  const onThrown = createFaultPrinter();
  const tell = (report: () => unknown) => {
    notify(report, onThrown);
  };

  const Watching: WebSocketConstructor & WatchingClass = class extends WebSocket {
    static watchTransport(transport: ClientTransport): ClientTransport {
      return watched(watchTransport(transport), watcher, tell, () => ++connections);
    }

    readonly #connection = ++connections;

    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      const connection = this.#connection;
      tell(() => watcher.onOpening(connection, String(url)));
      // Registered before the client's own listeners, so that a frame is seen before its consequences.
      this.addEventListener('open', () => {
        tell(() => watcher.onOpen(connection));
        // The server has read HELLO from the upgrade request.
        const hello = this.protocol === HELLO_READ ? helloIn(protocols) : undefined;
        if (hello !== undefined) tell(() => watcher.onFrame(connection, 'sent', hello));
      });
      this.addEventListener('message', ({ data }) =>
        tell(() => {
          const frame = frameOf(data);
          return frame === undefined ? undefined : watcher.onFrame(connection, 'received', frame);
        }),
      );
      this.addEventListener('close', ({ code = 1006, reason = '' }) =>
        tell(() => watcher.onClosed(connection, code, reason)),
      );
    }

    override send(data: string | Uint8Array<ArrayBuffer>, onWritten?: () => void): void {
      // The session reuses the memory of a frame once the peer has acknowledged it.
      const frame = typeof data === 'string' ? data : new Uint8Array(data);
      tell(() => watcher.onFrame(this.#connection, 'sent', frame));
      if (onWritten === undefined) super.send(data);
      else super.send(data, onWritten);
    }
  };
  return Watching;
}

/** The connections of a transport, as a watcher sees them. */
function watched(
  transport: ClientTransport,
  watcher: SocketWatcher,
  tell: (report: () => unknown) => void,
  next: () => number,
): ClientTransport {
  return {
    ...transport,
    open(url, hello, events) {
      const connection = next();
      let said: Frame | undefined;
      let own: readonly [code: number, reason: string] | undefined;
      const onFrame = (direction: Direction, frame: Frame | undefined) => {
        // The memory of a frame may be used again.
        const copy = typeof frame === 'object' ? new Uint8Array(frame) : frame;
        if (copy !== undefined) tell(() => watcher.onFrame(connection, direction, copy));
      };
      tell(() => watcher.onOpening(connection, String(url).replace(/^ws/, 'http')));
      const sayHello = () => {
        said = hello();
        return said;
      };
      const wire = transport.open(url, sayHello, {
        onOpen(isSaid) {
          tell(() => watcher.onOpen(connection));
          if (isSaid) onFrame('sent', said);
          events.onOpen(isSaid);
        },
        onMessage(data) {
          onFrame('received', data);
          events.onMessage(data);
        },
        onWritable: () => events.onWritable(),
        onClose(code, reason, failure) {
          // Over HTTP, no answer repeats the code of this end.
          const [seen, why] = (code === CloseCode.ABNORMAL ? own : undefined) ?? [code, reason];
          tell(() => watcher.onClosed(connection, seen, why));
          events.onClose(code, reason, failure);
        },
      });
      const send = wire.send.bind(wire);
      const close = wire.close.bind(wire);
      return Object.assign(wire, {
        send(frame: Frame) {
          onFrame('sent', frame);
          send(frame);
        },
        close(code: number, reason: string) {
          own ??= [code, reason];
          close(code, reason);
        },
      });
    },
  };
}

/** Prints the first fault of an inspection. */
export function createFaultPrinter(): (error: unknown) => void {
  let hasFailed = false;
  return (error) => {
    if (!hasFailed) console.error('the inspection of a connection has failed:', error);
    hasFailed = true;
  };
}

/** `undefined` for a `Blob`, which a client never asks for. */
function frameOf(data: unknown): Uint8Array | string | undefined {
  if (typeof data === 'string' || data instanceof Uint8Array) return data;
  return data instanceof ArrayBuffer ? new Uint8Array(data) : undefined;
}

/** The HELLO that a client offers in its upgrade request. */
function helloIn(protocols: readonly string[]): Uint8Array | undefined {
  const offer = protocols.find((name) => name.startsWith(HELLO_OFFER));
  if (offer === undefined) return undefined;
  const base64 = offer.slice(HELLO_OFFER.length).replaceAll('-', '+').replaceAll('_', '/');
  return Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
}
