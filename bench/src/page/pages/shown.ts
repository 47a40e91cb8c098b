/** Shared by the pages that run in Chromium: where the server is, and what a reader sees. */

declare global {
  /** Added by the browser's driver. */
  var reportShown: ((time: string) => void) | undefined;
}

/** Address of the page's server. */
export const server = new URLSearchParams(location.search).get('server') ?? '';

/** Shows text, and reports the first one with its milliseconds since the navigation began. */
export function show(text: string): void {
  document.body.append(text);
  globalThis.reportShown?.(String(performance.now()));
  globalThis.reportShown = undefined;
}
