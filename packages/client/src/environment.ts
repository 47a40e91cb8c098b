/**
 * Signs that a network or a page is back: browsers tell, other runtimes do not.
 *
 * @returns stops listening.
 */
export function onSignOfLife(listener: () => void): () => void {
  const { window, document } = globalThis as { window?: EventTarget; document?: Document };
  if (window === undefined || document === undefined) return () => {};
  const onVisible = () => {
    if (document.visibilityState === 'visible') listener();
  };
  window.addEventListener('online', listener);
  // A page that comes back out of the back/forward cache had its connection closed.
  window.addEventListener('pageshow', listener);
  document.addEventListener('visibilitychange', onVisible);
  return () => {
    window.removeEventListener('online', listener);
    window.removeEventListener('pageshow', listener);
    document.removeEventListener('visibilitychange', onVisible);
  };
}
