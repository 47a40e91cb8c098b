import { ProtocolError } from '../../base/errors.js';
import { type Fields, get, isFields } from '../../base/fields.js';
import type { Metadata } from '../messages/metadata.js';

/**
 * HTTP in a session, by convention between two applications: the metadata of a session request holds the head
 * of the HTTP request, the metadata of its reply the head of the response, both under `http`. Bodies are sent
 * as bodies.
 */

/** Header values by lower-case name. */
export type HttpHeaders = ReadonlyMap<string, string>;

export interface HttpRequestHead {
  /** 1 to 16 capital letters. */
  readonly method: string;
  /** The path with its query: begins with `/` and has at most 2,048 visible ASCII characters. */
  readonly path: string;
  /** At most 64, with values of at most 4,096 characters. */
  readonly headers: HttpHeaders;
}

export interface HttpResponseHead {
  /** 200 to 599. */
  readonly status: number;
  /** At most 64, with values of at most 4,096 characters. */
  readonly headers: HttpHeaders;
}

const KEY = 'http';
const DEFAULT_METHOD = 'POST';
const MAX_PATH_LENGTH = 2048;
export const MAX_HEADERS = 64;
const MAX_VALUE_LENGTH = 4096;
const METHOD = /^[A-Z]{1,16}$/;
/** Visible ASCII. */
const PATH = /^\/[!-~]*$/;
/** Narrower than HTTP: it allows every name in use, and excludes `__proto__`. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
/** Excludes line ends, and characters that do not fit into one byte. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Encodes the head of an HTTP request as the metadata of a request.
 *
 * @param head the default method is POST, without headers.
 * @param upload the ID of a body that the receiver is to ask for. @default the body is that of the request
 * @throws {ProtocolError} `invalid_argument` for an invalid head.
 */
export function encodeHttpRequest(
  head: Pick<HttpRequestHead, 'path'> & Partial<HttpRequestHead>,
  upload?: number,
): Metadata {
  const { method, path } = checkRequest(head.method, head.path, 'invalid_argument');
  // An end that knows of no uploads finds no path and refuses the request.
  const target = upload === undefined ? { path } : { upload: { id: upload, path } };
  return {
    [KEY]: { ...(method === DEFAULT_METHOD ? {} : { method }), ...target, ...headersField(head.headers) },
  };
}

/**
 * Decodes the head of an HTTP request from the metadata of a request; `undefined` if there is none.
 *
 * @throws {ProtocolError} `bad_message` for an invalid head, and for that of a request whose body is streamed.
 */
export function decodeHttpRequest(metadata: Metadata): HttpRequestHead | undefined {
  const fields = fieldsOf(metadata);
  if (fields === undefined) return undefined;
  const line = checkRequest(get(fields, 'method'), get(fields, 'path'), 'bad_message');
  return { ...line, headers: readHeaders(fields) };
}

/** The head of a request whose body may be streamed. */
export interface IncomingHead extends HttpRequestHead {
  /** The ID of the body to ask for; `undefined` if the body is that of the request. */
  readonly upload: number | undefined;
}

/** As {@link decodeHttpRequest}, also for requests whose body is streamed. */
export function decodeIncoming(metadata: Metadata): IncomingHead | undefined {
  const fields = fieldsOf(metadata);
  if (fields === undefined) return undefined;
  const upload = get(fields, 'upload');
  if (upload === undefined || upload === null) {
    const head = decodeHttpRequest(metadata);
    return head && { ...head, upload: undefined };
  }
  const id = isFields(upload) ? get(upload, 'id') : undefined;
  if (!isFields(upload) || !isId(id)) throw new ProtocolError('bad_message', 'HTTP upload: expected an ID');
  const line = checkRequest(get(fields, 'method'), get(upload, 'path'), 'bad_message');
  return { ...line, headers: readHeaders(fields), upload: id };
}

/** The metadata of a request for the body of an upload. */
export function encodePull(upload: number): Metadata {
  return { [KEY]: { pull: upload } };
}

/** The ID of the upload that a request asks for; `undefined` for any other request. 0 is never an ID. */
export function decodePull(metadata: Metadata): number | undefined {
  const fields = get(metadata, KEY);
  if (!isFields(fields)) return undefined;
  const id = get(fields, 'pull');
  if (id === undefined || id === null) return undefined;
  return isId(id) ? id : 0;
}

function isId(id: unknown): id is number {
  return typeof id === 'number' && Number.isSafeInteger(id) && id > 0;
}

/**
 * Encodes the head of an HTTP response as the metadata of a reply.
 *
 * @throws {ProtocolError} `invalid_argument` for an invalid head.
 */
export function encodeHttpResponse(
  head: Pick<HttpResponseHead, 'status'> & Partial<HttpResponseHead>,
): Metadata {
  return {
    [KEY]: { status: checkStatus(head.status, 'invalid_argument'), ...headersField(head.headers) },
  };
}

/**
 * Decodes the head of an HTTP response from the metadata of a reply; `undefined` if there is none.
 *
 * @throws {ProtocolError} `bad_message` for an invalid head.
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
  throw new ProtocolError('bad_message', 'http in the metadata: expected a map');
}

function checkRequest(method: unknown, path: unknown, code: Code): Pick<HttpRequestHead, 'method' | 'path'> {
  if (method !== undefined && method !== null && !(typeof method === 'string' && METHOD.test(method))) {
    throw new ProtocolError(code, 'HTTP method: expected 1 to 16 capital letters');
  }
  if (typeof path !== 'string' || path.length > MAX_PATH_LENGTH || !PATH.test(path)) {
    throw new ProtocolError(
      code,
      `HTTP path: expected "/" and at most ${MAX_PATH_LENGTH} visible ASCII characters in all`,
    );
  }
  return { method: method ?? DEFAULT_METHOD, path };
}

function checkStatus(status: unknown, code: Code): number {
  if (typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 599) return status;
  throw new ProtocolError(code, 'HTTP status: expected an integer from 200 to 599');
}

function headersField(headers: HttpHeaders | undefined): { headers?: Record<string, string> } {
  if (headers === undefined || headers.size === 0) return {};
  return { headers: Object.fromEntries(checkHeaders([...headers], 'invalid_argument')) };
}

function readHeaders(fields: Fields): HttpHeaders {
  const headers = get(fields, 'headers');
  if (headers === undefined || headers === null) return new Map();
  if (!isFields(headers))
    throw new ProtocolError('bad_message', 'headers of http in the metadata: expected a map');
  return new Map(checkHeaders(Object.entries(headers), 'bad_message'));
}

/** Whether a head may have such a field. */
export function isSendableHeader(name: string, value: string): boolean {
  return NAME.test(name) && value.length <= MAX_VALUE_LENGTH && VALUE.test(value);
}

function checkHeaders(entries: readonly (readonly [string, unknown])[], code: Code): [string, string][] {
  if (entries.length > MAX_HEADERS) {
    throw new ProtocolError(code, `${entries.length} HTTP headers; at most ${MAX_HEADERS} can be sent`);
  }
  return entries.map(([name, value]) => {
    if (!NAME.test(name)) {
      throw new ProtocolError(code, 'HTTP header name: expected 1 to 64 of a-z, 0-9, ".", "_" and "-"');
    }
    if (typeof value !== 'string' || !isSendableHeader(name, value)) {
      throw new ProtocolError(
        code,
        `HTTP header ${name}: expected text without line ends, of at most ${MAX_VALUE_LENGTH} characters up to U+00FF`,
      );
    }
    return [name, value];
  });
}
