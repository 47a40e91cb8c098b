import type { Limits } from '@parlance/protocol';
import {
  type Clock,
  CloseCode,
  guardLater,
  ProtocolError,
  Subprotocol,
  type Wire,
} from '@parlance/protocol/client';
import { type HttpOptions, httpStreams } from './http-stream.js';
import type { Locks } from './page-lock.js';
import type { ProbingSession } from './probe.js';
import type {
  ClientTransport,
  ConnectionEvents,
  ConnectionFailure,
  Frame,
  TransportName,
  WatchingClass,
} from './transport.js';

/** How long a transport may take to open before the next one is tried, in milliseconds. */
const HEAD_START_MS = 4_000;
/** A connection that is lost sooner after it has opened is one that a network does not let live. */
const SHORT_LIFE_MS = 5_000;
const MAX_SHORT_LIVES = 3;
/** A session over HTTP looks for a WebSocket after 30 s, 2 and 10 minutes. */
const PROBE_GAPS_MS = [30_000, 90_000, 480_000];
/** Bytes of a frame of the server: a piece of a tensor, and its head. */
const MIN_RECORD = 256 * 1024;
const RECORD_HEAD = 16 * 1024;

/** Pages and workers of browsers share their connections. Other runtimes may have locks, too, and have no location. */
interface Scope {
  readonly location: unknown;
  readonly navigator: { readonly locks?: Locks | undefined };
}

interface Given {
  readonly options: {
    readonly transports?: readonly TransportName[] | undefined;
    readonly subprotocol?: Subprotocol | undefined;
    readonly WebSocket?: object | undefined;
  };
  readonly limits: Pick<Limits, 'maxMessageSize' | 'maxHandshakeSize'>;
}

/**
 * The option `transports`.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function createModule({ options: { transports = [], subprotocol, WebSocket = {} }, limits }: Given) {
  const isKnown = transports.every((name) => name === 'http' || name === 'websocket');
  const isText = transports.includes('http') && subprotocol === Subprotocol.JSON;
  if (!isKnown || isText || transports.length === 0 || new Set(transports).size < transports.length)
    throw new ProtocolError(
      'invalid_option',
      "transports: expected 'websocket', 'http' or both; 'http' carries m2m.v1 only",
    );
  const { location, navigator } = globalThis as Partial<Scope>;
  const locks = location && navigator?.locks;
  const given: HttpOptions = {
    maxRecord: Math.max(limits.maxMessageSize, limits.maxHandshakeSize, MIN_RECORD) + RECORD_HEAD,
    admit:
      locks &&
      (async (url, onFreeze) => {
        const { takePlace } = await import('./stream-places.js');
        return await takePlace(given, locks, url, onFreeze);
      }),
  };
  const { watchTransport = (each) => each } = WebSocket as Partial<WatchingClass>;
  let session: ProbingSession | undefined;
  return {
    plan: {
      transport(webSocket: ClientTransport, clock: Clock): ClientTransport {
        const [first, second] = transports.map((name) => (name === 'http' ? watchTransport(httpStreams(given, clock)) : webSocket));
        if (second === undefined) return first as ClientTransport;
        return new InOrder([first as ClientTransport, second], clock, session);
      },
    },
    begin(sessions: ProbingSession): void {
      session = sessions;
    },
    gone(isCached: boolean): boolean {
      given.isLeaving = !isCached;
      return false;
    },
  };
}

/** Begins with the one of two transports that was answered last, and looks for a WebSocket beside a session over HTTP. */
export class InOrder implements ClientTransport {
  readonly extraMs = HEAD_START_MS;
  readonly #clock: Clock;
  readonly #session: ProbingSession | undefined;
  /** The one to begin with, and the other. */
  #order: readonly [ClientTransport, ClientTransport];
  /** Connections in a row that were lost soon. */
  #shortLives = 0;
  /** Since a WebSocket has lived for longer. */
  #probes = 0;
  /** A WebSocket that has opened beside the connection of the session, which takes it next. */
  #ready: ClientTransport | undefined;

  constructor(
    order: readonly [ClientTransport, ClientTransport],
    clock: Clock,
    session: ProbingSession | undefined,
  ) {
    this.#order = order;
    this.#clock = clock;
    this.#session = session;
  }

  get name(): TransportName {
    return this.#order[0].name;
  }
  get ifSilent(): string {
    return this.#order[0].ifSilent;
  }

  open(url: URL, hello: () => Frame | undefined, events: ConnectionEvents): Wire {
    const ready = this.#ready;
    this.#ready = undefined;
    const order = ready === undefined ? this.#order : ([ready, this.#order[0]] as const);
    return new EitherWire(order, url, hello, this.#clock, {
      ...events,
      onAnswered: (by) => this.#handleAnswered(by, url),
      onLost: (by, livedMs) => this.#handleLost(by, livedMs),
    });
  }

  #handleAnswered({ name }: ClientTransport, url: URL): () => void {
    if (name !== this.name) this.#swap();
    return name === 'http' && this.#session !== undefined ? this.#probeLater(url, this.#session) : () => {};
  }

  #handleLost({ name }: ClientTransport, livedMs: number): void {
    const isShort = livedMs < SHORT_LIFE_MS;
    if (name === 'websocket' && !isShort) this.#probes = 0;
    this.#shortLives = isShort && name === 'websocket' && name === this.name ? this.#shortLives + 1 : 0;
    if (this.#shortLives >= MAX_SHORT_LIVES) this.#swap();
  }

  /** @returns what stops it: the connection over HTTP is over. */
  #probeLater(url: URL, session: ProbingSession): () => void {
    const gap = PROBE_GAPS_MS[this.#probes];
    if (gap === undefined) return () => {};
    let stop = this.#clock.after(gap, () => {
      this.#probes++;
      const stopNext = this.#probeLater(url, session);
      let drop: (() => void) | undefined;
      let isOver = false;
      stop = () => {
        isOver = true;
        stopNext();
        drop?.();
      };
      const onReady = (ready: ClientTransport | undefined): void => {
        this.#ready = ready;
      };
      const begun = import('./probe.js').then(
        ({ probe }) => {
          const [first, second] = this.#order;
          if (isOver || first.name !== 'http') return;
          drop = probe({ webSocket: second, url, session, clock: this.#clock, onReady });
        },
        // Its code could not be loaded, and the session stays where it is.
        () => {},
      );
      guardLater(session, begun);
    });
    return () => stop();
  }

  #swap(): void {
    const [first, second] = this.#order;
    this.#order = [second, first];
    this.#shortLives = 0;
  }
}

interface EitherEvents extends ConnectionEvents {
  /** The first message is there. @returns what to call when the connection is over. */
  readonly onAnswered: (by: ClientTransport) => () => void;
  /** A connection ends without a close code. */
  readonly onLost: (by: ClientTransport, livedMs: number) => void;
}

/** A connection by the first of two transports that opens one; HELLO is the same for both. */
class EitherWire implements Wire {
  readonly #url: URL;
  readonly #hello: () => Frame | undefined;
  readonly #clock: Clock;
  readonly #events: EitherEvents;
  /** Why the first one has not opened. */
  #failure: ConnectionFailure | undefined;
  #isClosed = false;
  #stop: (() => void) | undefined;
  #current: Wire;

  constructor(
    [first, second]: readonly [ClientTransport, ClientTransport],
    url: URL,
    hello: () => Frame | undefined,
    clock: Clock,
    events: EitherEvents,
  ) {
    this.#url = url;
    this.#clock = clock;
    this.#events = events;
    let frame: Frame | undefined;
    this.#hello = () => {
      frame ??= hello();
      return frame;
    };
    this.#current = this.#open(first, second);
  }

  #open(by: ClientTransport, next: ClientTransport | undefined): Wire {
    let openedAt: number | undefined;
    /** What has opened says nothing yet, and something between may hold it back. */
    let isSilent = false;
    const isCurrent = (): boolean => this.#current === wire;
    const handleOpen = (isSaid: boolean): void => {
      cancel();
      openedAt = this.#clock.now();
      this.#events.onOpen(isSaid);
    };
    const wire = by.open(this.#url, this.#hello, {
      onOpen: (isSaid) => {
        if (!isCurrent()) return;
        // The answer to HELLO follows at once.
        if (isSaid && next !== undefined) isSilent = true;
        else handleOpen(isSaid);
      },
      onMessage: (data) => {
        if (!isCurrent()) return;
        if (isSilent) handleOpen(true);
        isSilent = false;
        this.#stop ??= this.#events.onAnswered(by);
        this.#events.onMessage(data);
      },
      onWritable: () => {
        if (isCurrent()) this.#events.onWritable();
      },
      onClose: (code, reason, failure) => {
        if (!isCurrent()) return;
        cancel();
        if (openedAt === undefined && next !== undefined && !this.#isClosed) return fallBack(failure);
        this.#stop?.();
        if (openedAt !== undefined && code === CloseCode.ABNORMAL)
          this.#events.onLost(by, this.#clock.now() - openedAt);
        // The first one says most, unless the second one was not even tried.
        this.#events.onClose(code, reason, (code === CloseCode.ABNORMAL && this.#failure) || failure);
      },
    });
    const fallBack = (failure: ConnectionFailure | undefined): void => {
      this.#failure = failure;
      this.#current = this.#open(next as ClientTransport, undefined);
    };
    const cancel =
      next === undefined
        ? () => {}
        : this.#clock.after(HEAD_START_MS, () => {
            fallBack(undefined);
            // The server may have read HELLO: another code would end the session.
            wire.close(CloseCode.TIMEOUT, '');
          });
    return wire;
  }

  get bufferedAmount(): number {
    return this.#current.bufferedAmount;
  }
  get highWater(): number | undefined {
    return this.#current.highWater;
  }

  send(frame: Frame): void {
    this.#current.send(frame);
  }

  close(code: number, reason: string): void {
    this.#isClosed = true;
    this.#stop?.();
    this.#current.close(code, reason);
  }
}
