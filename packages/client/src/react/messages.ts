import { useEffect, useRef } from 'react';
import type { Message, Session } from '../index.js';

/**
 * Calls `onMessage` with each one-way message of a session while the component is mounted. Any number of components may
 * do so: each gets every message that arrives while it listens. Messages wait in the session as long as no component
 * listens. An error of `onMessage` is reported as an uncaught error, and the next message follows.
 *
 * @param session `undefined` as long as there is none. A `for await` loop over it must not run at the same time (`invalid_argument`).
 * @param onMessage the function of the last render is called, so it needs no `useCallback`.
 */
export function useMessages(session: Session | undefined, onMessage: (message: Message) => unknown): void {
  const latest = useRef(onMessage);
  useEffect(() => {
    latest.current = onMessage;
  });
  useEffect(() => session && listen(session, (message) => latest.current(message)), [session]);
}

type Listener = (message: Message) => void;

/** A session has one reader, which all components share. */
interface Reading {
  readonly all: Set<Listener>;
  /** `undefined` while no component listens. */
  reader: AsyncIterator<Message> | undefined;
  /** Messages that had been taken when the last one stopped listening. */
  held: Message[];
}

const readings = new WeakMap<Session, Reading>();

/**
 * @returns a function that stops listening.
 * @throws {ProtocolError} `invalid_argument` if a loop reads the session.
 */
export function listen(session: Session, listener: Listener): () => void {
  const reading = readings.get(session) ?? { all: new Set<Listener>(), reader: undefined, held: [] };
  readings.set(session, reading);
  const { all } = reading;
  if (reading.reader === undefined) {
    reading.reader = session[Symbol.asyncIterator]();
    void read(reading, reading.reader);
  }
  all.add(listener);
  return () => {
    if (!all.delete(listener) || all.size > 0) return;
    // Lets go of the session at once: strict mode listens again in the same turn.
    void reading.reader?.return?.();
    reading.reader = undefined;
  };
}

/** Reads until no component listens any more, or the session ends. */
async function read(reading: Reading, reader: AsyncIterator<Message>): Promise<void> {
  // A component that is unmounted in the turn in which it was mounted takes no message.
  await undefined;
  for (const message of reading.held.splice(0)) hand(reading, message);
  try {
    while (reading.reader === reader) {
      const next = await reader.next();
      if (next.done) return;
      hand(reading, next.value);
    }
  } catch {
    // How a session has ended is what `useSession` shows.
  }
}

function hand({ all, held }: Reading, message: Message): void {
  if (all.size === 0) held.push(message);
  for (const listener of [...all]) {
    try {
      listener(message);
    } catch (error) {
      setTimeout(() => {
        throw error;
      });
    }
  }
}
