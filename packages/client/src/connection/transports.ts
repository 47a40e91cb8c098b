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
  readonly location: object;
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
    leaving: new Set(),
    admit:
      locks &&
      (async (url, onFreeze) => {
        const { takePlace } = await import('./stream-places.js');
        return await takePlace(given, locks, url, onFreeze);
      }),
  };
  const { watchTransport = (each) => each } = WebSocket as Partial<WatchingClass>;
  let session: ProbingSession;
  return {
    plan: {
      transport(webSocket: ClientTransport, clock: Clock): ClientTransport {
        const [first, second] = transports.map((name) =>
          name === 'http' ? watchTransport(httpStreams(given, clock)) : webSocket,
        );
        if (second === undefined) return first as ClientTransport;
        return inOrder([first as ClientTransport, second], clock, session);
      },
    },
    begin(sessions: ProbingSession): void {
      session = sessions;
    },
    left(): void {
      for (const leave of given.leaving) leave();
    },
  };
}

/** Begins with the one of two transports that was answered last, and looks for a WebSocket beside a session over HTTP. */
export function inOrder(
  given: readonly [ClientTransport, ClientTransport],
  clock: Clock,
  session: ProbingSession,
): ClientTransport {
  /** The one to begin with, and the other. */
  let [first, second] = given;
  /** Connections in a row that were lost soon. */
  let shortLives = 0;
  /** Since a WebSocket has lived for longer. */
  let probes = 0;
  /** A WebSocket that has opened beside the connection of the session, which takes it next. */
  let ready: ClientTransport | undefined;
  const swap = (): void => {
    [first, second] = [second, first];
    shortLives = 0;
  };
  /** @returns what stops it: the connection over HTTP is over. */
  const probeLater = (url: URL): (() => void) => {
    let isOver = false;
    let due = 0;
    const stops = PROBE_GAPS_MS.slice(probes).map((gap) => {
      due += gap;
      return clock.after(due, () => {
        probes++;
        const begun = import('./probe.js').then(
          ({ probe }) => {
            if (isOver || first.name !== 'http') return;
            stops.push(probe({ webSocket: second, url, session, clock, onReady }));
          },
          // Its code could not be loaded, and the session stays where it is.
          () => {},
        );
        guardLater(session, begun);
      });
    });
    return () => {
      isOver = true;
      for (const stop of stops) stop();
    };
  };
  const onReady = (open: ClientTransport | undefined): void => {
    ready = open;
  };
  return {
    extraMs: HEAD_START_MS,
    get name() {
      return first.name;
    },
    get ifSilent() {
      return first.ifSilent;
    },
    open(url, hello, events) {
      const order = [ready ?? first, ready ? first : second] as const;
      ready = undefined;
      return openEither(order, url, hello, clock, {
        ...events,
        onAnswered({ name }) {
          if (name !== first.name) swap();
          return name === 'http' ? probeLater(url) : () => {};
        },
        onLost({ name }, livedMs) {
          const isShort = livedMs < SHORT_LIFE_MS;
          if (name === 'websocket' && !isShort) probes = 0;
          shortLives = isShort && name === 'websocket' && name === first.name ? shortLives + 1 : 0;
          if (shortLives >= MAX_SHORT_LIVES) swap();
        },
      });
    },
  };
}

interface EitherEvents extends ConnectionEvents {
  /** The first message is there. @returns what to call when the connection is over. */
  readonly onAnswered: (by: ClientTransport) => () => void;
  /** A connection ends without a close code. */
  readonly onLost: (by: ClientTransport, livedMs: number) => void;
}

/** A connection by the first of two transports that opens one; HELLO is the same for both. */
function openEither(
  [first, second]: readonly [ClientTransport, ClientTransport],
  url: URL,
  hello: () => Frame | undefined,
  clock: Clock,
  events: EitherEvents,
): Wire {
  let frame: Frame | undefined;
  const sayHello = (): Frame | undefined => {
    frame ??= hello();
    return frame;
  };
  /** Why the first one has not opened. */
  let reason: ConnectionFailure | undefined;
  let stop: (() => void) | undefined;
  let isClosed = false;

  const open = (by: ClientTransport, next: ClientTransport | undefined): Wire => {
    let openedAt: number | undefined;
    /** The transport has opened but sent nothing yet, and something between may hold its data back. */
    let isSilent = false;
    const isCurrent = (): boolean => current === wire;
    const handleOpen = (isSaid: boolean): void => {
      cancel?.();
      openedAt = clock.now();
      events.onOpen(isSaid);
    };
    const wire = by.open(url, sayHello, {
      onOpen(isSaid) {
        if (!isCurrent()) return;
        // The answer to HELLO follows at once.
        if (isSaid && next !== undefined) isSilent = true;
        else handleOpen(isSaid);
      },
      onMessage(data) {
        if (!isCurrent()) return;
        if (isSilent) handleOpen(true);
        isSilent = false;
        stop ??= events.onAnswered(by);
        events.onMessage(data);
      },
      onWritable() {
        if (isCurrent()) events.onWritable();
      },
      onClose(code, why, failure) {
        if (!isCurrent()) return;
        cancel?.();
        if (openedAt === undefined && next !== undefined && !isClosed) return fallBack(failure);
        stop?.();
        if (openedAt !== undefined && code === CloseCode.ABNORMAL) events.onLost(by, clock.now() - openedAt);
        // The first one says most, unless the second one was not even tried.
        events.onClose(code, why, (code === CloseCode.ABNORMAL && reason) || failure);
      },
    });
    const fallBack = (failure: ConnectionFailure | undefined): void => {
      reason = failure;
      current = open(next as ClientTransport, undefined);
    };
    const cancel =
      next &&
      clock.after(HEAD_START_MS, () => {
        fallBack(undefined);
        // The server may have read HELLO: another code would end the session.
        wire.close(CloseCode.TIMEOUT, '');
      });
    return wire;
  };

  let current = open(first, second);
  return {
    get bufferedAmount() {
      return current.bufferedAmount;
    },
    get highWater() {
      return current.highWater;
    },
    send: (data) => current.send(data),
    close(code, why) {
      isClosed = true;
      stop?.();
      current.close(code, why);
    },
  };
}
