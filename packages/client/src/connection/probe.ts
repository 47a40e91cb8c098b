import type { SessionCore } from '@parlance/protocol';
import {
  attempt,
  type Clock,
  CloseCode,
  type Crashable,
  Extension,
  type Wire,
} from '@parlance/protocol/client';
import type { ClientTransport, ConnectionEvents, ConnectionFailure } from './transport.js';

/** How long a WebSocket may take to open, to be taken, and to bring the answer to HELLO, in milliseconds each. */
const ANSWER_MS = 4_000;
const GAPS_MS = [30_000, 90_000, 480_000];

/** The session that may move to a WebSocket. */
export interface ProbingSession extends Crashable {
  readonly current: { readonly core: Pick<SessionCore, 'state' | 'negotiated'> };
  readonly isStopping: boolean;
  readonly isAccepted: boolean;
  /** Opens another connection beside the present one, and resumes on it. */
  move(): void;
}

/** What is known of the WebSockets of a client. */
export interface Probes {
  /** Those that were tried since one has lived for longer. */
  count: number;
  /** One that has opened beside the connection of the session, which takes it next. */
  ready?: ClientTransport | undefined;
}

export interface Probe {
  readonly webSocket: ClientTransport;
  readonly url: URL;
  readonly session: ProbingSession;
  readonly clock: Clock;
  readonly probes: Probes;
}

/** Looks for a WebSocket after 30 s, 2 and 10 minutes. @returns what stops it: the connection over HTTP is over. */
export function probeInGaps(given: Probe): () => void {
  const { clock, probes } = given;
  let due = 0;
  const stops = GAPS_MS.slice(probes.count).map((gap) => {
    due += gap;
    return clock.after(due, () => {
      probes.count++;
      stops.push(probe(given));
    });
  });
  return () => {
    for (const stop of stops) stop();
  };
}

/**
 * Opens a WebSocket beside the connection of a session, and moves the session to it if it opens.
 *
 * @returns what gives the WebSocket up, unless the session has taken it.
 */
function probe({ webSocket, url, session, clock, probes }: Probe): () => void {
  const { state, negotiated } = session.current.core;
  const canMove = state === 'established' && negotiated?.extensions[Extension.RESUME] !== undefined;
  if (!canMove || session.isStopping) return () => {};
  let wire: Wire | undefined;
  let events: ConnectionEvents | undefined;
  let isOver = false;
  let cancel = (): void => {};
  const end = (code: number, reason: string, failure: ConnectionFailure): void => {
    if (isOver) return;
    isOver = true;
    cancel();
    if (events === undefined) probes.ready = undefined;
    else events.onClose(code, reason, failure);
  };
  const drop = (): void => {
    // The server may have read HELLO, so this must be a loss.
    wire?.close(CloseCode.TIMEOUT, '');
    end(CloseCode.ABNORMAL, '', () => undefined);
  };
  const limit = (): void => {
    cancel();
    cancel = clock.after(ANSWER_MS, drop);
  };
  const handleOpen = (open: Wire): void => {
    limit();
    probes.ready = {
      name: webSocket.name,
      ifSilent: webSocket.ifSilent,
      open(_url, _hello, given) {
        events = given;
        limit();
        clock.after(0, () => {
          if (!isOver) given.onOpen(false);
        });
        return open;
      },
    };
    session.move();
  };
  limit();
  const failed = attempt(() => {
    wire = webSocket.open(url, () => undefined, {
      onOpen: () => {
        if (wire !== undefined && !isOver) handleOpen(wire);
      },
      onMessage: (data) => {
        cancel();
        events?.onMessage(data);
      },
      onWritable: () => events?.onWritable(),
      onClose: end,
    });
  });
  // This runtime has no WebSockets.
  if (failed !== undefined) drop();
  return () => {
    if (events === undefined) drop();
  };
}
