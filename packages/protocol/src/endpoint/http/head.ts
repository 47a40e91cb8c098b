import { ProtocolError } from '../../base/errors.js';
import { type Fields, get, isFields } from '../../base/fields.js';
import type { Metadata } from '../messages/metadata.js';

/**
 * How an HTTP exchange travels in a session, by convention between two applications: the head of the
 * request in the metadata of a session request, the head of the response in the metadata of its reply,
 * both under `http`, and the bodies as bodies.
 */

/** Header fields by lower-case name. */
export type HttpHeaders = ReadonlyMap<string, string>;

export interface HttpRequestHead {
  readonly method: string;
  /** Begins with `/`; a query belongs to it. At most 2,048 characters. */
  readonly path: string;
  /** At most 64. */
  readonly headers: HttpHeaders;
}

export interface HttpResponseHead {
  /** 200 to 599. */
  readonly status: number;
  /** At most 64. */
  readonly headers: HttpHeaders;
}

const KEY = 'http';
const DEFAULT_METHOD = 'POST';
const MAX_PATH_LENGTH = 2048;
const MAX_HEADERS = 64;
const MAX_VALUE_LENGTH = 4096;
const METHOD = /^[A-Z]{1,16}$/;
/** Visible ASCII. */
const PATH = /^\/[!-~]*$/;
/** Narrower than HTTP: every name in use fits, and none can be mistaken for a property of an object. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
/** What could end a header line has no place in one, nor has what no byte stands for. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * The metadata of a request that carries an HTTP request.
 *
 * @param head what is left out is POST, and no headers.
 * @throws {ProtocolError} `invalid_argument` for a head that nobody would take.
 */
export function encodeHttpRequest(head: Pick<HttpRequestHead, 'path'> & Partial<HttpRequestHead>): Metadata {
  const { method, path } = checkRequest(head.method, head.path, 'invalid_argument');
  return {
    [KEY]: { ...(method === DEFAULT_METHOD ? {} : { method }), path, ...headersField(head.headers) },
  };
}

/**
 * The head of an HTTP request that travels with a request; `undefined` where it carries none.
 *
 * @throws {ProtocolError} `bad_message`.
 */
export function decodeHttpRequest(metadata: Metadata): HttpRequestHead | undefined {
  const fields = fieldsOf(metadata);
  if (fields === undefined) return undefined;
  const line = checkRequest(get(fields, 'method'), get(fields, 'path'), 'bad_message');
  return { ...line, headers: readHeaders(fields) };
}

/**
 * The metadata of a reply that carries an HTTP response.
 *
 * @throws {ProtocolError} `invalid_argument`.
 */
export function encodeHttpResponse(
  head: Pick<HttpResponseHead, 'status'> & Partial<HttpResponseHead>,
): Metadata {
  return {
    [KEY]: { status: checkStatus(head.status, 'invalid_argument'), ...headersField(head.headers) },
  };
}

/**
 * The head of an HTTP response that travels with a reply; `undefined` where it carries none.
 *
 * @throws {ProtocolError} `bad_message`.
 */
export function decodeHttpResponse(metadata: Metadata): HttpResponseHead | undefined {
  const fields = fieldsOf(metadata);
  if (fields === undefined) return undefined;
  return { status: checkStatus(get(fields, 'status'), 'bad_message'), headers: readHeaders(fields) };
}

type Code = 'invalid_argument' | 'bad_message';

function fieldsOf(metadata: Metadata): Fields | undefined {
  const fields = get(metadata, KEY);
  if (fields === undefined || fields === null) return undefined;
  if (isFields(fields)) return fields;
  throw new ProtocolError('bad_message', 'http in the metadata must be a map');
}

function checkRequest(method: unknown, path: unknown, code: Code): Pick<HttpRequestHead, 'method' | 'path'> {
  if (method !== undefined && method !== null && !(typeof method === 'string' && METHOD.test(method))) {
    throw new ProtocolError(code, 'an HTTP method is 1 to 16 capital letters');
  }
  if (typeof path !== 'string' || path.length > MAX_PATH_LENGTH || !PATH.test(path)) {
    throw new ProtocolError(
      code,
      `an HTTP path begins with "/" and has at most ${MAX_PATH_LENGTH} visible ASCII characters`,
    );
  }
  return { method: method ?? DEFAULT_METHOD, path };
}

function checkStatus(status: unknown, code: Code): number {
  if (typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 599) return status;
  throw new ProtocolError(code, 'an HTTP status is a whole number from 200 to 599');
}

function headersField(headers: HttpHeaders | undefined): { headers?: Record<string, string> } {
  if (headers === undefined || headers.size === 0) return {};
  return { headers: Object.fromEntries(checkHeaders([...headers], 'invalid_argument')) };
}

function readHeaders(fields: Fields): HttpHeaders {
  const headers = get(fields, 'headers');
  if (headers === undefined || headers === null) return new Map();
  if (!isFields(headers)) throw new ProtocolError('bad_message', 'the headers of http must be a map');
  return new Map(checkHeaders(Object.entries(headers), 'bad_message'));
}

function checkHeaders(entries: readonly (readonly [string, unknown])[], code: Code): [string, string][] {
  if (entries.length > MAX_HEADERS) {
    throw new ProtocolError(code, `${entries.length} HTTP headers, at most ${MAX_HEADERS} travel`);
  }
  return entries.map(([name, value]) => {
    if (!NAME.test(name)) {
      throw new ProtocolError(code, 'an HTTP header name is 1 to 64 of a-z, 0-9, ".", "_" and "-"');
    }
    if (typeof value !== 'string' || value.length > MAX_VALUE_LENGTH || !VALUE.test(value)) {
      throw new ProtocolError(
        code,
        `the value of the HTTP header ${name} is text without line ends, of at most ${MAX_VALUE_LENGTH} characters`,
      );
    }
    return [name, value];
  });
}
