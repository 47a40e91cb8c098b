/** The WebSocket standard maps these schemes. */
const SCHEMES: Readonly<Record<string, string>> = { 'http:': 'ws:', 'https:': 'wss:' };

/** A text with a host and without a path. */
const HOST_ALONE = /^\s*[^/]*\/\/[^/?#\\]+(\?|$)/;

/**
 * Resolves the URL of a session server to one with `ws:` or `wss:`; `http:` and `https:` are mapped. In a
 * page, a relative URL refers to the page's own server. A text without a path means the default one of servers.
 *
 * @throws {ProtocolError} `invalid_option` if it is not such a URL.
 */
export async function resolveUrl(given: string | URL): Promise<URL> {
  const { location } = globalThis as { location?: { href: string } };
  let url: URL | undefined;
  try {
    if (typeof given === 'string' || given instanceof URL) url = new URL(given, location?.href);
  } catch {
    // It is not a URL.
  }
  if (url !== undefined) {
    if (typeof given === 'string' && HOST_ALONE.test(given)) url.pathname = '/session';
    url.protocol = SCHEMES[url.protocol] ?? url.protocol;
    if (/^wss?:$/.test(url.protocol) && url.hash === '') return url;
  }
  throw (await import('./web-socket-failure.js')).invalidUrl(given, url);
}
