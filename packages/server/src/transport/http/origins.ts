/**
 * Origins of pages and apps, as browsers write them in the header `Origin`. The text that is checked is also compared.
 */

const WILDCARD = '://*.';
/** The text that a wildcard stands for: one or more labels of a name. */
const LABELS = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/;

/** Not all of a domain of the first level, such as `https://*.example`. */
const NARROW = /:\/\/any\.([^.]+\.|localhost(:|$))/;

/** @param rule an origin, `*`, or one with a wildcard, such as `https://*.app.example`. */
export function admitsOrigin(rule: string, origin: string): boolean {
  const at = rule.indexOf(WILDCARD);
  if (at < 0) return rule === '*' || rule === origin;
  const head = rule.slice(0, at + '://'.length);
  const tail = rule.slice(at + '://*'.length);
  const labels = origin.slice(head.length, -tail.length);
  return origin.startsWith(head) && origin.endsWith(tail) && LABELS.test(labels);
}

/** Says why a rule can match no page; `undefined` if one can match. */
export function faultOfOrigin(rule: unknown): string | undefined {
  if (typeof rule !== 'string') return 'write it as https://app.example';
  if (rule === '*') return undefined;
  const page = rule.replace(WILDCARD, '://any.');
  const isWide = page !== rule && !NARROW.test(page);
  if (isWide || page.includes('*')) return 'a wildcard stands for subdomains, as in https://*.app.example';
  const written = writtenByBrowsers(page);
  return written === page ? undefined : `write it as ${written ?? 'https://app.example'}`;
}

/** `undefined` if no page has this origin. `null` is what pages without one send; those of files, `file://` or `null`. */
function writtenByBrowsers(text: string): string | undefined {
  if (text === 'null' || /^file:\/*$/.test(text)) return text === 'null' ? text : 'file://';
  if (!URL.canParse(text)) return undefined;
  const { protocol, origin, host } = new URL(text);
  // A page opens WebSockets, and does not come from one.
  if (protocol === 'ws:' || protocol === 'wss:') return writtenByBrowsers(text.replace(/^ws/i, 'http'));
  if (protocol === 'ftp:' || host === '') return undefined;
  // Other schemes than those of the web have no origin that `URL` knows.
  return origin === 'null' ? `${protocol}//${host.toLowerCase()}` : origin;
}

/** The origin of a page over HTTP; `undefined` of apps, files and extensions. */
export function webOrigin(origin: string): URL | undefined {
  return /^https?:/.test(origin) && URL.canParse(origin) ? new URL(origin) : undefined;
}

/** Says why no client asks for the path of an endpoint; `undefined` if clients write it like this. */
export function faultOfPath(path: string): string | undefined {
  const at = `http://host${path}`;
  if (!path.startsWith('/') || !URL.canParse(at)) return 'path must begin with "/"';
  const { pathname, search, hash } = new URL(at);
  if (search !== '' || hash !== '' || /[?#]/.test(path))
    return `path must have neither a query nor a fragment: write "${pathname}"`;
  return pathname === path ? undefined : `clients write that path as "${pathname}": write it so`;
}
