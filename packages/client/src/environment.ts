/** What a browser tells about the page that a session belongs to; other runtimes tell nothing. */
export interface PageListener {
  /** The network or the page is back: worth an attempt to connect at once. */
  onSignOfLife(): void;
  /** The page goes away for good, and its sessions with it. */
  onGone(): void;
}

/** @returns stops listening. */
export function watchPage({ onSignOfLife: listener, onGone }: PageListener): () => void {
  const { window, document } = globalThis as { window?: EventTarget; document?: Document };
  if (window === undefined || document === undefined) return () => {};
  const onVisible = () => {
    if (document.visibilityState === 'visible') listener();
  };
  const onPageHide = (event: Event) => {
    // A page in the back/forward cache may come back.
    if ((event as PageTransitionEvent).persisted !== true) onGone();
  };
  window.addEventListener('pagehide', onPageHide);
  window.addEventListener('online', listener);
  // A page that comes back out of the back/forward cache had its connection closed.
  window.addEventListener('pageshow', listener);
  document.addEventListener('visibilitychange', onVisible);
  return () => {
    window.removeEventListener('pagehide', onPageHide);
    window.removeEventListener('online', listener);
    window.removeEventListener('pageshow', listener);
    document.removeEventListener('visibilitychange', onVisible);
  };
}
