import type { Limits } from '@parlance/protocol';
import { type Clock, guardLater, ProtocolError, Subprotocol } from '@parlance/protocol/client';
import type { openEither as OpenEitherFunction } from './fall-back.js';
import { type HttpOptions, httpStreams } from './http-stream.js';
import type { Locks } from './page-lock.js';
import type { Probes, ProbingSession } from './probe.js';
import type { ClientTransport, ConnectionFailure, TransportName, WatchingClass } from './transport.js';

/** Every page has it, and an import of it would move it to a file of its own. */
type OpenEither = typeof OpenEitherFunction;

/** How long a transport may take to open before the next one is tried, in milliseconds. */
const HEAD_START_MS = 4_000;
const MAX_SHORT_LIVES = 3;
const SECOND_GAP_MS = 10_000;
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
export function createModule({
  options: { transports = ['websocket', 'http'], subprotocol, WebSocket = {} },
  limits,
}: Given) {
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
    isAccepted: () => session.isAccepted,
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
      /** @param failure why a WebSocket has not opened just now. */
      transport(
        webSocket: ClientTransport,
        clock: Clock,
        openEither: OpenEither,
        failure?: ConnectionFailure,
      ): ClientTransport {
        const [first, second] = transports.map((name) =>
          name === 'http' ? watchTransport(httpStreams(given, clock)) : webSocket,
        );
        if (second === undefined) return first as ClientTransport;
        return inOrder([first as ClientTransport, second], clock, session, openEither, failure);
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

/**
 * Begins with the one of two transports that was answered last, and looks for a WebSocket beside a session over HTTP.
 *
 * @param failure why the first one has not opened just now: the first connection begins with the second one.
 */
export function inOrder(
  given: readonly [ClientTransport, ClientTransport],
  clock: Clock,
  session: ProbingSession,
  openEither: OpenEither,
  failure?: ConnectionFailure,
): ClientTransport {
  /** The one to begin with, and the other. */
  let [first, second] = given;
  /** Connections in a row that were lost soon. */
  let shortLives = 0;
  /** Clock reading from which on the second one is tried again: a server that is down is not asked twice each time. */
  let due = 0;
  const probes: Probes = { count: 0 };
  let failed = failure;
  const swap = (): void => {
    [first, second] = [second, first];
    shortLives = 0;
  };
  /** @returns what stops it: the connection over HTTP is over. */
  const probeLater = (url: URL): (() => void) => {
    let isOver = false;
    let stop = (): void => {
      isOver = true;
    };
    const begun = import('./probe.js').then(
      ({ probeInGaps }) => {
        if (!isOver) stop = probeInGaps({ webSocket: second, url, session, clock, probes });
      },
      // Its code could not be loaded, and the session stays where it is.
      () => {},
    );
    guardLater(session, begun);
    return () => stop();
  };
  return {
    get extraMs() {
      return clock.now() < due ? 0 : HEAD_START_MS;
    },
    get name() {
      return first.name;
    },
    get ifSilent() {
      return first.ifSilent;
    },
    open(url, hello, events) {
      const begins = failed ?? probes.ready ?? first;
      const next = failed || !probes.ready ? second : first;
      const isDue = begins !== first || clock.now() >= due;
      failed = probes.ready = undefined;
      return openEither(url, hello, events, {
        first: begins,
        second: isDue
          ? async () => {
              due = clock.now() + SECOND_GAP_MS;
              return next;
            }
          : undefined,
        clock,
        onAnswered({ name }) {
          due = 0;
          if (name !== first.name) swap();
          return name === 'http' ? probeLater(url) : undefined;
        },
        onLost({ name }, isSoon) {
          if (name === 'websocket' && !isSoon) probes.count = 0;
          shortLives = isSoon && name === 'websocket' && name === first.name ? shortLives + 1 : 0;
          if (shortLives >= MAX_SHORT_LIVES) swap();
        },
      });
    },
  };
}
