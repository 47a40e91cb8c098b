import { type ClientSession, connect, ProtocolError } from '@parlance/client';

/**
 * Keeps this page connected to one server. A session outlives its connections by itself; what is done
 * here is the first connection, and another session after one that has ended. A server that refuses is
 * asked again only where it says that this may help.
 */

export type LinkState =
  | { readonly name: 'connecting' }
  | {
      readonly name: 'connected';
      readonly session: ClientSession;
      /** `resumed` with nothing missing, or `anew` in a session that knows nothing of the one before. */
      readonly since: 'first' | 'resumed' | 'anew';
    }
  /** The connection is lost, the session is not: it comes back by itself. */
  | { readonly name: 'suspended'; readonly session: ClientSession }
  /** The session is over, and the next one begins by itself: the server is replaced, or has lost it. */
  | { readonly name: 'moving'; readonly session: ClientSession }
  | {
      readonly name: 'refused';
      readonly error: ProtocolError;
      /** Unix milliseconds of the next attempt; without it, nothing happens until `tryNow`. */
      readonly retryAt: number | undefined;
    }
  | {
      readonly name: 'lost';
      /** What ended the session; `undefined` where the server closed it as agreed. */
      readonly error: ProtocolError | undefined;
      /** Whether there ever was a session. */
      readonly hadSession: boolean;
      /** Unix milliseconds of the next attempt; `undefined` while one is under way. */
      readonly retryAt: number | undefined;
    };

export interface SessionLink {
  readonly state: LinkState;
  /** Ends the waiting, if there is any. */
  tryNow(): void;
}

const RETRY_MS = 4_000;
/** Pages that lost the same server must not all come back in the same moment. */
const RETRY_SPREAD_MS = 2_000;

/** Connects, and reports every change of state. */
export function createSessionLink(url: string, onState: (state: LinkState) => void): SessionLink {
  let state: LinkState = { name: 'connecting' };
  let hadSession = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function enter(next: LinkState): void {
    state = next;
    clearTimeout(timer);
    if ('retryAt' in next && next.retryAt !== undefined)
      timer = setTimeout(tryNow, next.retryAt - Date.now());
    onState(next);
  }

  async function attempt(): Promise<void> {
    let session: ClientSession;
    try {
      session = await connect(url);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      enter(failedState(error, hadSession));
      return;
    }
    enter({ name: 'connected', session, since: hadSession ? 'anew' : 'first' });
    hadSession = true;
    follow(session);
    enter({ name: 'lost', error: await endOf(session), hadSession, retryAt: retryTime() });
  }

  function follow(session: ClientSession): void {
    let { id } = session;
    session.on('state', (now) => {
      if (now === 'suspended') enter({ name: 'suspended', session });
      if (now === 'connecting') enter({ name: 'moving', session });
      if (now !== 'established') return;
      enter({ name: 'connected', session, since: session.id === id ? 'resumed' : 'anew' });
      id = session.id;
    });
  }

  function tryNow(): void {
    if (state.name === 'lost' && state.retryAt !== undefined) enter({ ...state, retryAt: undefined });
    else if (state.name === 'refused') enter({ name: 'connecting' });
    else return;
    void attempt();
  }

  onState(state);
  void attempt();
  return {
    get state() {
      return state;
    },
    tryNow,
  };
}

function failedState(error: ProtocolError, hadSession: boolean): LinkState {
  // Whoever is not there may come; whoever has answered is believed.
  if (
    error.code === 'connection_failed' ||
    error.code === 'session_lost' ||
    error.code === 'session_closed'
  ) {
    return { name: 'lost', error, hadSession, retryAt: retryTime() };
  }
  return { name: 'refused', error, retryAt: error.retryable ? retryTime(error.retryAfterMs) : undefined };
}

/** Waits for the end of the session. One-way messages are no part of a chat and are passed over. */
async function endOf(session: ClientSession): Promise<ProtocolError | undefined> {
  for (;;) {
    try {
      for await (const _message of session);
      return undefined;
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      // A lost session is told to its reader, and then goes on as a new one.
      if (session.state === 'closed') return error;
    }
  }
}

function retryTime(leastMs = 0): number {
  return Date.now() + Math.max(leastMs, RETRY_MS + Math.random() * RETRY_SPREAD_MS);
}
