/** The part of the client's transport over HTTP that is used here. */
interface Transport {
  open(url: URL, hello: unknown, events: Events): Wire;
}

interface Events {
  onOpen(...given: readonly unknown[]): void;
  onClose(...given: readonly unknown[]): void;
}

interface Wire {
  /** Ends the connection as if the network had gone. */
  terminate(): void;
}

/** A connection that is open. */
export interface Connection {
  lose(): void;
}

/** How long a page that has cut itself off stays away, in milliseconds. */
const AWAY_MS = 3_000;

/**
 * The class for the option `WebSocket` of `connect`. It knows the connections of this page, those over HTTP as well, and can lose them:
 * the demo's server does that itself, others do not.
 */
export class CuttableSocket extends WebSocket {
  static readonly #open = new Set<Connection>();
  static #awayUntil = 0;
  /** Sees each message of a WebSocket, and its close, before the client does. */
  static onEvent: ((socket: WebSocket, event: Event) => void) | undefined;

  /** The newest connection that is open. */
  static get newest(): Connection | undefined {
    return [...CuttableSocket.#open].at(-1);
  }

  /** Loses every connection, and has none for a while: the client would come back at once. */
  static cut(): void {
    CuttableSocket.#awayUntil = performance.now() + AWAY_MS;
    for (const connection of CuttableSocket.#open) connection.lose();
  }

  /** The client has its connections over HTTP watched by this. */
  static watchTransport(transport: Transport): Transport {
    return {
      ...transport,
      open(url, hello, events) {
        const connection = { lose: () => wire.terminate() };
        const wire = transport.open(CuttableSocket.#reachable(url), hello, {
          ...events,
          onOpen(...given) {
            CuttableSocket.#open.add(connection);
            events.onOpen(...given);
          },
          onClose(...given) {
            CuttableSocket.#open.delete(connection);
            events.onClose(...given);
          },
        });
        return wire;
      },
    };
  }

  /** While the page is away, each attempt to connect gets an address without a session, and fails. */
  static #reachable(url: URL): URL {
    return performance.now() < CuttableSocket.#awayUntil ? new URL('/away', url) : url;
  }

  constructor(url: string | URL, protocols?: string | string[]) {
    super(CuttableSocket.#reachable(new URL(url)), protocols);
    const connection = { lose: () => this.close() };
    this.onmessage = this.onclose = (event: Event) => CuttableSocket.onEvent?.(this, event);
    // These are called before the client's own listeners.
    this.addEventListener('open', () => CuttableSocket.#open.add(connection));
    this.addEventListener('close', () => CuttableSocket.#open.delete(connection));
  }
}
