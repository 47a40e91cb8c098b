import { useEffect, useRef, useSyncExternalStore } from 'react';
import { warnOnce } from '../frameworks/warn-once.js';
import {
  type ClientOptions,
  type ClientSession,
  connect,
  type SessionReset,
  type SessionState,
} from '../index.js';
import { type Failure, failureOf, NO_FAILURE } from './failure.js';
import { useView, View } from './view.js';

/**
 * `idle`: there is nothing to connect to. `connecting`: the first session is being opened. `online`. `reconnecting`:
 * the connection is lost; what is sent meanwhile waits. `refused`: the session could not be opened, or has failed, and
 * no other follows by itself; `code` says why. `closed`: either end has closed the session; `code` is the one that it
 * has given, if any.
 */
export type SessionStatus = 'idle' | 'connecting' | 'online' | 'reconnecting' | 'refused' | 'closed';

/** A session as a component sees it. */
export interface SessionView extends Failure {
  readonly status: SessionStatus;
  /** While `online` and `reconnecting`. */
  readonly session: ClientSession | undefined;
  /**
   * The ID of that session. `session` stays the same object if another session takes the place of a lost one, and this changes:
   * an effect that has set something up at the server, such as the rooms of a user, depends on both.
   */
  readonly id: string | undefined;
  /**
   * While `reconnecting`: seconds until the server gives the session up; 0 while a new one is opened in its place.
   * `undefined` in a tab that shares its session.
   */
  readonly secondsLeft: number | undefined;
  /** Connects again, if `refused` or `closed`. */
  readonly retry: () => void;
}

/** A URL to connect to, a function that connects, or a session that the application has opened and closes itself. */
export type SessionSource = string | URL | ClientSession | (() => ClientSession | Promise<ClientSession>);

export interface SessionOptions extends ClientOptions {
  /**
   * Called as listeners of `reset` are: another session has taken the place of a lost one, which is in no room and knows nothing of the page; or
   * requests of a former page were interrupted. The function of the last render is called. It counts for every source.
   */
  readonly onReset?: ((reset: SessionReset) => unknown) | undefined;
}

/**
 * The session of a component. It is opened when the component is mounted, never on a server, and closed when it is
 * unmounted. Only another URL or another session object replaces it; to have other options take effect, give the
 * component another `key`.
 *
 * @param source `undefined`, `null` or '' as long as there is nothing to connect to.
 * @param options of `connect`, if the source is a URL.
 */
export function useSession(
  source: SessionSource | null | undefined,
  { onReset, ...options }: SessionOptions = {},
): SessionView {
  const latest = useRef(onReset);
  useEffect(() => {
    latest.current = onReset;
  });
  // Functions and URL objects are often made by the render itself.
  const key = typeof source === 'function' ? 'function' : source instanceof URL ? source.href : source;
  const view = useView(
    () => new Connecting(source || undefined, options, (reset) => latest.current?.(reset)),
    key,
  );
  return useSyncExternalStore(view.watch, view.getState, view.getState);
}

const TICK_MS = 1_000;

class Connecting extends View<SessionView> {
  readonly #source: SessionSource | undefined;
  readonly #options: ClientOptions;
  readonly #onReset: (reset: SessionReset) => void;
  /** Ends the present attempt, or the session that it has opened. */
  #leave: (() => void) | undefined;
  #ticking: ReturnType<typeof setInterval> | undefined;

  constructor(
    source: SessionSource | undefined,
    options: ClientOptions,
    onReset: (reset: SessionReset) => void,
  ) {
    super({
      status: source === undefined ? 'idle' : 'connecting',
      session: undefined,
      id: undefined,
      secondsLeft: undefined,
      ...NO_FAILURE,
      retry: () => this.#retry(),
    });
    this.#source = source;
    this.#options = options;
    this.#onReset = onReset;
  }

  protected begin(): void {
    const source = this.#source;
    if (source === undefined) return;
    if (typeof source === 'object' && 'close' in source) {
      this.#leave = this.#look(source);
      return;
    }
    const aborting = new AbortController();
    let isLeft = false;
    this.#leave = () => {
      isLeft = true;
      aborting.abort();
    };
    const { signal = aborting.signal } = this.#options;
    const opened = (async () =>
      typeof source === 'function' ? await source() : await connect(source, { ...this.#options, signal }))();
    opened.then(
      (session) => {
        if (isLeft) return void session.close();
        const stopLooking = this.#look(session);
        this.#leave = () => {
          stopLooking();
          void session.close();
        };
      },
      (error) => {
        if (isLeft) return;
        warnOnce(error);
        this.#end('refused', failureOf(error));
      },
    );
  }

  protected end(): void {
    this.#leave?.();
    this.#leave = undefined;
    if (this.#source !== undefined) this.#end('connecting');
  }

  #retry(): void {
    const { status } = this.latest;
    if (!this.isWorking || (status !== 'refused' && status !== 'closed')) return;
    this.end();
    this.begin();
  }

  /** @returns a function that stops looking. */
  #look(session: ClientSession): () => void {
    let failure = NO_FAILURE;
    const show = (state: SessionState): void => {
      // An error before was that of a lost session, whose place this one has taken.
      if (state !== 'closing' && state !== 'closed') failure = NO_FAILURE;
      if (state === 'established') this.#show('online', session);
      else if (state === 'suspended' || state === 'connecting') this.#show('reconnecting', session);
      // One that closes may be followed by another one, as when its server drains: the next state says whether it is.
      else if (state === 'closed') this.#end(failure === NO_FAILURE ? 'closed' : 'refused', failure);
    };
    const stops = [
      session.on('state', show),
      session.on('reset', this.#onReset),
      session.on('error', (error) => {
        failure = failureOf(error);
        show(session.state);
      }),
    ];
    let isLeft = false;
    session.closed.then(({ code }) => {
      if (!isLeft && failure === NO_FAILURE && code !== undefined)
        this.#end('closed', { code, error: undefined });
    });
    show(session.state);
    return () => {
      isLeft = true;
      for (const stop of stops) stop();
    };
  }

  #show(status: 'online' | 'reconnecting', session: ClientSession): void {
    clearInterval(this.#ticking);
    const tick = (): void =>
      this.set({ status, session, id: session.id, secondsLeft: secondsLeftOf(session), ...NO_FAILURE });
    if (status === 'reconnecting') this.#ticking = setInterval(tick, TICK_MS);
    tick();
  }

  #end(status: SessionStatus, failure = NO_FAILURE): void {
    clearInterval(this.#ticking);
    this.set({ status, session: undefined, id: undefined, secondsLeft: undefined, ...failure });
  }
}

function secondsLeftOf({ state, suspendedUntil }: ClientSession): number | undefined {
  if (state === 'connecting') return 0;
  return suspendedUntil && Math.max(0, Math.round((suspendedUntil - Date.now()) / 1_000));
}
