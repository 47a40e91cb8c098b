import { createHash } from 'node:crypto';
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
/** Names and values that travel in the head of a reply; HTTP knows odder ones. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** @param principal who asks: what a header names is this principal's own. */
export function requestHeaders(headers: HttpHeaders, principal: string): [string, string][] {
  return TO_UPSTREAM.flatMap((name): [string, string][] => {
    const value = headers.get(name);
    if (value === undefined) return [];
    return [[name, name === 'idempotency-key' ? ownKey(principal, value) : value]];
  });
}

/**
 * An upstream answers a known idempotency key with what it has answered before, whichever principal of the gateway asks.
 * Hashed with the principal, no key means anything for another principal. The same key of the same principal stays
 * the same, also after a restart and at another gateway.
 */
function ownKey(principal: string, key: string): string {
  return createHash('sha256')
    .update(JSON.stringify([principal, key]))
    .digest('hex');
}

export function replyHeaders(headers: Headers, secret: Secret): HttpHeaders {
  const passed = [...headers].filter(
    ([name, value]) =>
      (TO_CLIENT.has(name) || name.startsWith(TO_CLIENT_PREFIX)) &&
      NAME.test(name) &&
      value.length <= MAX_VALUE_LENGTH &&
      VALUE.test(value),
  );
  return new Map(passed.slice(0, MAX_HEADERS).map(([name, value]) => [name, secret.hideEncoded(value)]));
}
