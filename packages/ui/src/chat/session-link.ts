import {
  type ClientSession,
  connect,
  ProtocolError,
  type SessionEnd,
  type WebSocketConstructor,
} from '@parlance/client';
import { connectOptions } from '../shared/profile.js';
import { isModelWanted } from './load-model.js';

export type LinkState =
  | { readonly name: 'connecting' }
  | {
      readonly name: 'connected';
      readonly session: ClientSession;
      /** `resumed`: nothing is missing. `new`: a session without knowledge of the one before. */
      readonly since: 'first' | 'resumed' | 'new';
    }
  /** The connection is lost, the session is not: it resumes by itself. */
  | { readonly name: 'suspended'; readonly session: ClientSession }
  /** The session is over and the next one begins by itself. */
  | {
      readonly name: 'moving';
      readonly session: ClientSession;
      /** The server has said that it shuts down; if not, the connection was lost for longer than it keeps a session. */
      readonly isTold: boolean;
    }
  /** The server has closed the session, and does not want this page back: nothing happens until `tryNow(true)`. */
  | { readonly name: 'ended'; readonly session: ClientSession; readonly end: SessionEnd }
  | {
      readonly name: 'refused';
      readonly error: ProtocolError;
      /** Unix milliseconds of the next attempt; without it, nothing happens until `tryNow`. */
      readonly retryAt: number | undefined;
    }
  | {
      readonly name: 'lost';
      /** Why, in the words of the server or of this end. */
      readonly reason: string;
      /** The server has closed the session in order. */
      readonly isClosed: boolean;
      /** Whether there ever was a session. */
      readonly hadSession: boolean;
      /** Unix milliseconds of the next attempt; `undefined` during an attempt. */
      readonly retryAt: number | undefined;
    };

export interface SessionLink {
  readonly state: LinkState;
  /**
   * Retries at once if waiting for the next attempt.
   *
   * @param isAsked the user wants it: also after a session that the server has closed for good.
   */
  tryNow(isAsked?: boolean): void;
}

/** The server is asked whether it is there after this much silence, in milliseconds. */
export const PING_MS = 10_000;
const TIMERS = { pingIntervalMs: PING_MS };
const RETRY_MS = 4_000;
/** Random delay, so that pages that lost the same server do not reconnect at the same moment. */
const RETRY_SPREAD_MS = 2_000;

/**
 * Keeps this page connected to one server and reports every change of state. A session reconnects by itself;
 * this makes the first connection, and a new session after one that has ended. After a refusal it tries
 * again only if the server allows a retry.
 */
export function createSessionLink(
  url: string,
  WebSocket: WebSocketConstructor,
  onState: (state: LinkState) => void,
): SessionLink {
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
    const blocked = untilBlocked(url);
    try {
      session = await connect(url, {
        ...connectOptions(url),
        timers: TIMERS,
        codecsAfter: isModelWanted,
        WebSocket,
        signal: blocked.signal,
      });
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      enter(failedState(error, hadSession));
      return;
    } finally {
      blocked.forget();
    }
    enter({ name: 'connected', session, since: hadSession ? 'new' : 'first' });
    hadSession = true;
    follow(session);
    enter(endedState(session, await endOf(session)));
  }

  function follow(session: ClientSession): void {
    let { id } = session;
    session.on('state', (now) => {
      if (now === 'suspended') enter({ name: 'suspended', session });
      // Without a loss before, the session has ended by agreement.
      if (now === 'connecting') enter({ name: 'moving', session, isTold: state.name !== 'suspended' });
      if (now !== 'established') return;
      enter({ name: 'connected', session, since: session.id === id ? 'resumed' : 'new' });
      id = session.id;
    });
  }

  function tryNow(isAsked = false): void {
    if (state.name === 'ended' && isAsked) enter({ name: 'connecting' });
    else if (state.name === 'lost' && state.retryAt !== undefined) enter({ ...state, retryAt: undefined });
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

/** The error of a page whose policy does not let it connect there. It would wait for ever. */
export const BLOCKED = 'blocked_by_policy';

/** A signal that aborts if the policy of the page blocks a connection to `url`. */
function untilBlocked(url: string): { readonly signal: AbortSignal; forget(): void } {
  const controller = new AbortController();
  const handleViolation = ({ effectiveDirective, blockedURI }: SecurityPolicyViolationEvent) => {
    if (effectiveDirective !== 'connect-src' || !isSameHost(blockedURI, url)) return;
    controller.abort(
      new ProtocolError('forbidden', `the policy of this page allows no connection to ${url}`, {
        cause: BLOCKED,
      }),
    );
  };
  document.addEventListener('securitypolicyviolation', handleViolation);
  return {
    signal: controller.signal,
    forget: () => document.removeEventListener('securitypolicyviolation', handleViolation),
  };
}

function isSameHost(blocked: string, url: string): boolean {
  return URL.canParse(blocked) && URL.canParse(url) && new URL(blocked).host === new URL(url).host;
}

function failedState(error: ProtocolError, hadSession: boolean): LinkState {
  // An absent server may come back; an answer that refuses is final unless it allows a retry.
  if (
    error.code === 'connection_failed' ||
    error.code === 'session_lost' ||
    error.code === 'session_closed'
  ) {
    return { name: 'lost', reason: error.message, isClosed: false, hadSession, retryAt: retryTime() };
  }
  return { name: 'refused', error, retryAt: error.retryable ? retryTime(error.retryAfterMs) : undefined };
}

function endedState(session: ClientSession, end: SessionEnd): LinkState {
  const { code, side, error } = end;
  // A server that wants the client back gives no code.
  if (error === undefined && side === 'remote' && code !== undefined) return { name: 'ended', session, end };
  const reason = error?.message ?? (end.reason || 'the server closed the session');
  const isClosed = error === undefined;
  return { name: 'lost', reason, isClosed, hadSession: true, retryAt: retryTime() };
}

/** Waits for the end of the session. Ignores one-way messages, which are not part of a chat. */
async function endOf(session: ClientSession): Promise<SessionEnd> {
  try {
    for await (const _message of session);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
  }
  return await session.closed;
}

function retryTime(leastMs = 0): number {
  return Date.now() + Math.max(leastMs, RETRY_MS + Math.random() * RETRY_SPREAD_MS);
}
