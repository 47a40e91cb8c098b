import type { HttpHeaders } from '@parlance/protocol';
import type { Secret } from './secret.js';

/** Which header fields pass the gateway. Everything else stays on the side where it was said. */

/** Of a client's headers none decides who pays, or what the gateway says about itself. */
const TO_UPSTREAM: readonly string[] = ['openai-beta', 'idempotency-key', 'x-client-request-id'];

const TO_CLIENT: ReadonlySet<string> = new Set([
  'content-type',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'x-request-id',
  'openai-model',
  'openai-processing-ms',
  'openai-version',
]);
const TO_CLIENT_PREFIX = 'x-ratelimit-';

/** Together they fit into the metadata of a reply with room to spare. */
const MAX_HEADERS = 24;
const MAX_VALUE_LENGTH = 200;

export function requestHeaders(headers: HttpHeaders): [string, string][] {
  return TO_UPSTREAM.flatMap((name): [string, string][] => {
    const value = headers.get(name);
    return value === undefined ? [] : [[name, value]];
  });
}

export function replyHeaders(headers: Headers, secret: Secret): HttpHeaders {
  const passed = [...headers].filter(
    ([name, value]) =>
      (TO_CLIENT.has(name) || name.startsWith(TO_CLIENT_PREFIX)) &&
      name.length <= 64 &&
      value.length <= MAX_VALUE_LENGTH,
  );
  return new Map(passed.slice(0, MAX_HEADERS).map(([name, value]) => [name, secret.hide(value)]));
}
