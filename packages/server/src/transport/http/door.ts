import type { IncomingMessage } from 'node:http';
import { addressKey, clientAddress, isForwarded } from './addresses.js';
import type { HttpOptions } from './options.js';
import { checkHost, checkOrigin, type Refusal } from './site.js';

/** The far end of a connection before it has authenticated. */
export interface Peer {
  /** The client's address, as reported by trusted proxies if there are any. */
  readonly ip: string;
  readonly request: IncomingMessage;
}

/** A peer that may come in, or gets `refusal` as an answer in the protocol that it speaks. */
export interface Arrival extends Peer {
  readonly refusal: Refusal | undefined;
}

/** An answer of HTTP, so that a client that comes too often costs as little as possible. */
export interface TurnedAway {
  readonly status: 429 | 503;
  readonly message: string;
  /** Milliseconds after which the client may come again. */
  readonly retryAfterMs: number;
}

export interface DoorOptions {
  readonly options: Pick<HttpOptions, 'origins' | 'hosts' | 'trustedProxies' | 'logger'>;
  /** Counts a connection and returns 0, or returns the milliseconds for which the address gets HTTP 429. */
  readonly connect: (address: string) => number;
  /** Another server takes new connections: the milliseconds after which clients come back; `undefined` if this one does. */
  readonly retryElsewhere?: (() => number | undefined) | undefined;
}

/** Checks each request that opens a connection, over any transport: rates, proxies, host and origin. */
export class Door {
  readonly #host: DoorOptions;
  readonly #arrivals = new WeakMap<IncomingMessage, Arrival | TurnedAway>();
  #hasWarned = false;

  constructor(host: DoorOptions) {
    this.#host = host;
  }

  /** Counts a request that opens a connection. */
  enter(request: IncomingMessage): Arrival | TurnedAway {
    const { options, connect, retryElsewhere } = this.#host;
    const elsewhereMs = retryElsewhere?.();
    if (elsewhereMs !== undefined) {
      const message = 'This node is shutting down; another one takes connections.';
      return { status: 503, message, retryAfterMs: elsewhereMs };
    }
    if (options.trustedProxies.isEmpty && isForwarded(request)) this.#warnOfProxy();
    const ip = clientAddress(request, options.trustedProxies);
    const waitMs = connect(addressKey(ip));
    if (waitMs > 0)
      return { status: 429, message: 'Too many connections from this address.', retryAfterMs: waitMs };
    return { ip, request, refusal: checkHost(request, options) ?? checkOrigin(request, options) };
  }

  /** A request that may be asked about again, and counts once. */
  enterOnce(request: IncomingMessage): Arrival | TurnedAway {
    const arrival = this.#arrivals.get(request) ?? this.enter(request);
    this.#arrivals.set(request, arrival);
    return arrival;
  }

  /** Behind a proxy that is not listed, all clients share one address and its limits. */
  #warnOfProxy(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    this.#host.options.logger.warn(
      { event: 'server.proxied' },
      'X-Forwarded-For is ignored; if the proxy is yours, list it in trustedProxies',
    );
  }
}
