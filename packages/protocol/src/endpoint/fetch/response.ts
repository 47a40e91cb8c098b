import { withArticle } from '../../base/article.js';
import { type HttpHeaders, isSendableHeader, MAX_HEADERS } from '../http/head.js';
import { type ChunkReader, readChunks } from './source.js';

/** The result of a fetch handler, read and checked, as a handler may return anything. */
export interface ReadResponse {
  readonly status: number;
  readonly headers: HttpHeaders;
  /** Names of headers that cannot be sent. */
  readonly dropped: readonly string[];
  /** `undefined` if the response has none. */
  readonly body: ChunkReader | undefined;
}

/** About a connection that does not exist, about the coding of bytes that are not coded, or for a jar that is not there. */
const OMITTED = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-encoding',
]);

/** Characters of all header names and values, so that they fit into the metadata of a reply. */
const MAX_HEAD = 6 * 1024;

/**
 * @param hasBody whether the body is wanted.
 * @throws {TypeError} if it is not a response that can be sent; what its properties throw.
 */
export function readResponse(value: unknown, hasBody: boolean): ReadResponse {
  if (!isResponse(value)) throw new TypeError(`onFetch has to return a Response, not ${describe(value)}`);
  const { status, bodyUsed, body } = value;
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new TypeError(`onFetch returned a response with status ${status}; 200 to 599 can be sent`);
  }
  if (bodyUsed === true) {
    throw new TypeError('onFetch returned a response whose body was read already; it can be sent once');
  }
  const { headers, dropped } = readHeaders(value.headers);
  const chunks = body === null || body === undefined ? undefined : readChunks(body);
  if (hasBody) return { status, headers, dropped, body: chunks };
  chunks?.cancel(undefined);
  return { status, headers, dropped, body: undefined };
}

/** The Fetch API has several implementations, whose classes are not those of the runtime. */
function isResponse(value: unknown): value is Response {
  if (typeof value !== 'object' || value === null || !('status' in value) || !('headers' in value))
    return false;
  const { status, headers } = value;
  return (
    typeof status === 'number' &&
    typeof headers === 'object' &&
    headers !== null &&
    Symbol.iterator in headers
  );
}

function describe(value: unknown): string {
  if (value === null || typeof value !== 'object')
    return String(typeof value === 'string' ? 'a string' : value);
  return withArticle(value.constructor?.name || 'value');
}

function readHeaders(given: Iterable<readonly [string, string]>): Pick<ReadResponse, 'headers' | 'dropped'> {
  const entries = [...given].map(([name, value]): [string, string] => [
    String(name).toLowerCase(),
    String(value),
  ]);
  const isCoded = entries.some(([name]) => name === 'content-encoding');
  const headers = new Map<string, string>();
  const dropped: string[] = [];
  let length = 0;
  // The others make no sense without it.
  entries.sort(([a], [b]) => Number(b === 'content-type') - Number(a === 'content-type'));
  for (const [name, value] of entries) {
    // The length is that of the coded body.
    if (OMITTED.has(name) || (isCoded && name === 'content-length')) continue;
    length += name.length + value.length;
    const isSendable = name !== 'set-cookie' && length <= MAX_HEAD && headers.size < MAX_HEADERS;
    if (isSendable && isSendableHeader(name, value)) headers.set(name, value);
    else {
      length -= name.length + value.length;
      dropped.push(name.slice(0, 64));
    }
  }
  return { headers, dropped };
}
