/** Events of the page that a session belongs to; other runtimes have none. */
export interface PageListener {
  /** The network or the page is back: try to connect at once. */
  onSignOfLife(): void;
  /** The page is discarded, and its sessions with it. */
  onGone(): void;
}

/** @returns a function that stops listening. */
export function watchPage({ onSignOfLife: listener, onGone }: PageListener): () => void {
  const { window, document } = globalThis as { window?: EventTarget; document?: Document };
  if (window === undefined || document === undefined) return () => {};
  const onVisible = () => {
    if (document.visibilityState === 'visible') listener();
  };
  const onPageHide = (event: Event) => {
    // A page in the back/forward cache may return.
    if ((event as PageTransitionEvent).persisted !== true) onGone();
  };
  window.addEventListener('pagehide', onPageHide);
  window.addEventListener('online', listener);
  // The browser closed the connection when the page went into the back/forward cache.
  window.addEventListener('pageshow', listener);
  document.addEventListener('visibilitychange', onVisible);
  return () => {
    window.removeEventListener('pagehide', onPageHide);
    window.removeEventListener('online', listener);
    window.removeEventListener('pageshow', listener);
    document.removeEventListener('visibilitychange', onVisible);
  };
}
