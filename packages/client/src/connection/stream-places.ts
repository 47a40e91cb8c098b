import { type Locks, takeLock } from './page-lock.js';

/** A browser opens six connections to a server of HTTP/1.1, of which each stream takes one for good. */
const MAX_STREAMS = 3;
/** How long a page that goes away may take to free its place, in milliseconds. */
const WAIT_MS = 1_000;
const TAKEN = `this browser has ${MAX_STREAMS} sessions over HTTP with that server, and could not send in one more; close one, or let tabs share a session with shared: true`;

interface Place {
  /** Of one client, which for a moment has two of them when it moves. */
  streams: number;
  free(): void;
}

const places = new WeakMap<object, Place>();

/**
 * Counts a stream among those that the pages and workers of this origin have with a server.
 *
 * @param client whose streams have one place together.
 * @param onFreeze the browser is about to freeze the page, which then may hold nothing that other pages wait for.
 * @returns what to call, once, when the stream is over; or why there may be no further one.
 */
export async function takePlace(
  client: object,
  locks: Locks,
  url: URL,
  onFreeze: () => void,
): Promise<(() => void) | string> {
  const place = places.get(client) ?? (await placeAt(locks, url.origin.replace(/^ws/, 'http')));
  if (place === undefined) return TAKEN;
  places.set(client, place);
  place.streams++;
  const { document } = globalThis as { document?: EventTarget };
  document?.addEventListener('freeze', onFreeze);
  return () => {
    document?.removeEventListener('freeze', onFreeze);
    if (--place.streams > 0) return;
    places.delete(client);
    place.free();
  };
}

async function placeAt(locks: Locks, origin: string): Promise<Place | undefined> {
  // A page whose storage is blocked may take no lock, and shares no connections with other pages.
  const isBlocked = await locks.query().then(
    () => false,
    () => true,
  );
  if (isBlocked || isMultiplexed(origin)) return { streams: 0, free() {} };
  return await new Promise((resolve) => {
    let isTaken = false;
    // All at once: the first one that is free counts, and the others are freed again.
    const requests = Array.from({ length: MAX_STREAMS }, async (_, i) => {
      const free = await takeLock(locks, `parlance:stream:${i}:${origin}`, WAIT_MS);
      if (isTaken || free === undefined) return free?.();
      isTaken = true;
      resolve({ streams: 0, free });
    });
    void Promise.all(requests).then(() => resolve(undefined));
  });
}

/** A connection to the server was of HTTP/2 or later, which carries any number of streams. Nothing tells before there was one. */
function isMultiplexed(origin: string): boolean {
  const entries = ['navigation', 'resource'].flatMap((type) => performance.getEntriesByType(type));
  return (entries as PerformanceResourceTiming[]).some(
    ({ name, nextHopProtocol }) => /^h[23]/.test(nextHopProtocol) && new URL(name).origin === origin,
  );
}
