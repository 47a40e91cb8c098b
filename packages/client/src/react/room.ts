import { useEffect, useRef, useSyncExternalStore } from 'react';
import type { Session } from '../index.js';
import { type Failure, failureOf, NO_FAILURE } from './failure.js';
import { useView, View } from './view.js';

/** A room as a component sees it. */
export interface RoomView extends Failure {
  /** `idle`: the session or the name is missing. `joining`: for the first time, or again in another session. `joined`. `failed`: `code` says why. */
  readonly status: 'idle' | 'joining' | 'joined' | 'failed';
}

/** How an application joins a room, which is a group of the server that its handlers add the session to. */
export interface RoomCalls {
  /** Asks the server; the promise resolves when the session is a member. */
  readonly join: (session: Session, name: string) => unknown;
  /** Asks the server to end that, when the component is unmounted or has another name. @default the session stays a member */
  readonly leave?: ((session: Session, name: string) => unknown) | undefined;
}

/**
 * Joins a room while the component is mounted, and again in each session that takes the place of a lost one: that one is in no room.
 *
 * @param name `undefined` as long as there is none.
 * @param calls the functions of the last render are called, so they need no `useCallback`.
 */
export function useRoom(session: Session | undefined, name: string | undefined, calls: RoomCalls): RoomView {
  const latest = useRef(calls);
  useEffect(() => {
    latest.current = calls;
  });
  const view = useView(() => new Joining(session, name, () => latest.current), session, name);
  return useSyncExternalStore(view.watch, view.getState, view.getState);
}

class Joining extends View<RoomView> {
  readonly #session: Session | undefined;
  readonly #name: string | undefined;
  readonly #calls: () => RoomCalls;
  /** The session that was asked last. */
  #id = '';
  #stopListening: (() => void) | undefined;

  constructor(session: Session | undefined, name: string | undefined, calls: () => RoomCalls) {
    const isIdle = session === undefined || name === undefined;
    super({ status: isIdle ? 'idle' : 'joining', ...NO_FAILURE });
    this.#session = session;
    this.#name = name;
    this.#calls = calls;
  }

  protected begin(): void {
    const [session, name] = [this.#session, this.#name];
    if (session === undefined || name === undefined) return;
    const look = (): void => {
      if (session.state !== 'established' || session.id === this.#id) return;
      this.#id = session.id;
      void this.#join(session, name);
    };
    this.#stopListening = session.on('state', look);
    look();
  }

  protected end(): void {
    this.#stopListening?.();
    const [session, name] = [this.#session, this.#name];
    const isIn = session !== undefined && name !== undefined && session.id === this.#id;
    this.#id = '';
    // How it ends is of no use to a component that is gone.
    if (isIn) void (async () => await this.#calls().leave?.(session, name))().catch(() => {});
  }

  async #join(session: Session, name: string): Promise<void> {
    const { id } = session;
    this.set({ status: 'joining', ...NO_FAILURE });
    try {
      await this.#calls().join(session, name);
      if (id === this.#id) this.set({ status: 'joined' });
    } catch (error) {
      // With its session, another one comes, which joins by itself.
      if (id === this.#id && session.id === id) this.set({ status: 'failed', ...failureOf(error) });
    }
  }
}
