/** Events of the page that a session belongs to; a worker has only those of the network, and other runtimes have none. */
export interface PageListener {
  /** The network has gone, or the network or the page is back: ask the server at once whether it is there, and try to connect. */
  onSignOfLife(): void;
  /** The page is discarded, and its sessions with it, unless `isCached`: it may then return. */
  onGone(isCached: boolean): void;
  /** The page is back from the back/forward cache. */
  onBack(): void;
}

/** Whether this is a page, or a worker of one. */
export const isPage = (): boolean => 'document' in globalThis || 'WorkerLocation' in globalThis;

/** @returns a function that stops listening. */
export function watchPage({ onSignOfLife: listener, onGone, onBack }: PageListener): () => void {
  const { window = globalThis, document } = globalThis as { window?: EventTarget; document?: Document };
  if (!isPage() || !('addEventListener' in window)) return () => {};
  const isCached = (event: Event) => (event as PageTransitionEvent).persisted === true;
  // Without a signal: in a page that a test has made of jsdom, `AbortController` is often that of Node, which jsdom refuses.
  const listeners: readonly (readonly [EventTarget | undefined, string, (event: Event) => void])[] = [
    [window, 'online', listener],
    [window, 'offline', listener],
    [window, 'pagehide', (event) => onGone(isCached(event))],
    // The browser closed the connection when the page went into the back/forward cache.
    [window, 'pageshow', (event) => (isCached(event) ? onBack() : listener())],
    [document, 'visibilitychange', () => document?.visibilityState === 'visible' && listener()],
  ];
  for (const [target, type, each] of listeners) target?.addEventListener(type, each);
  return () => {
    for (const [target, type, each] of listeners) target?.removeEventListener(type, each);
  };
}
