/** Events of the page that a session belongs to; other runtimes have none. */
export interface PageListener {
  /** The network has gone, or the network or the page is back: ask the server at once whether it is there, and try to connect. */
  onSignOfLife(): void;
  /** The page is discarded, and its sessions with it, unless `isCached`: it may then return. */
  onGone(isCached: boolean): void;
  /** The page is back from the back/forward cache. */
  onBack(): void;
}

/** @returns a function that stops listening. */
export function watchPage({ onSignOfLife: listener, onGone, onBack }: PageListener): () => void {
  const { window, document } = globalThis as { window?: EventTarget; document?: Document };
  if (window === undefined || document === undefined) return () => {};
  const over = new AbortController();
  const { signal } = over;
  const isCached = (event: Event) => (event as PageTransitionEvent).persisted === true;
  window.addEventListener('online', listener, { signal });
  window.addEventListener('offline', listener, { signal });
  window.addEventListener('pagehide', (event) => onGone(isCached(event)), { signal });
  // The browser closed the connection when the page went into the back/forward cache.
  window.addEventListener('pageshow', (event) => (isCached(event) ? onBack() : listener()), { signal });
  document.addEventListener(
    'visibilitychange',
    () => {
      if (document.visibilityState === 'visible') listener();
    },
    { signal },
  );
  return () => over.abort();
}
