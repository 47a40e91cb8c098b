/** Events of the page that a session belongs to; other runtimes have none. */
export interface PageListener {
  /** The network or the page is back: try to connect at once. */
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
  const onVisible = () => {
    if (document.visibilityState === 'visible') listener();
  };
  const isCached = (event: Event) => (event as PageTransitionEvent).persisted === true;
  const onPageHide = (event: Event) => onGone(isCached(event));
  // The browser closed the connection when the page went into the back/forward cache.
  const onPageShow = (event: Event) => (isCached(event) ? onBack() : listener());
  window.addEventListener('pagehide', onPageHide);
  window.addEventListener('online', listener);
  window.addEventListener('pageshow', onPageShow);
  document.addEventListener('visibilitychange', onVisible);
  return () => {
    window.removeEventListener('pagehide', onPageHide);
    window.removeEventListener('online', listener);
    window.removeEventListener('pageshow', onPageShow);
    document.removeEventListener('visibilitychange', onVisible);
  };
}
