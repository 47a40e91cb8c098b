import { createHash } from 'node:crypto';
import type { HttpHeaders } from '@parlance/protocol';
import { isReplyName } from '@parlance/protocol/internal';
import { GatewayFailure } from './failure.js';
import type { Secret } from './secret.js';

/** Header fields that the gateway passes on. All others are dropped. */

/** None of these selects an account or identifies the gateway. */
const TO_UPSTREAM: readonly string[] = [
  'openai-beta',
  'idempotency-key',
  'x-client-request-id',
  'range',
  'if-range',
];

const TO_CLIENT: ReadonlySet<string> = new Set([
  'content-type',
  'content-range',
  'accept-ranges',
  'content-disposition',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'x-request-id',
  'openai-model',
  'openai-processing-ms',
  'openai-version',
]);
const TO_CLIENT_PREFIX = 'x-ratelimit-';

/** With these bounds, the headers fit easily into the metadata of a reply. */
const MAX_HEADERS = 24;
const MAX_VALUE_LENGTH = 200;
/** Names and values that the head of a reply may carry; HTTP allows more. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** @param principal owner of the request: idempotency keys are valid only for this principal. */
export function requestHeaders(headers: HttpHeaders, principal: string): [string, string][] {
  return TO_UPSTREAM.flatMap((name): [string, string][] => {
    const value = headers.get(name);
    if (value === undefined) return [];
    return [[name, name === 'idempotency-key' ? ownKey(principal, value) : value]];
  });
}

const REPLY_NAME = 'x-parlance-reply-name';

/**
 * The name that the client gives a kept reply; `undefined` if it gives none.
 *
 * @throws {GatewayFailure} `bad_request` if a reply cannot have this name.
 */
export function replyName(headers: HttpHeaders): string | undefined {
  const name = headers.get(REPLY_NAME);
  if (name === undefined || isReplyName(name)) return name;
  throw new GatewayFailure(
    'bad_request',
    `${REPLY_NAME}: expected 1 to 128 bytes that do not begin with "reply_"`,
  );
}

/**
 * Hashes an idempotency key together with the principal. An upstream repeats its earlier response to a known key, no
 * matter which principal of the gateway sends it; hashed, a key is useless to other principals. The hash stays the same
 * after a restart and on other gateways.
 */
function ownKey(principal: string, key: string): string {
  return createHash('sha256')
    .update(JSON.stringify([principal, key]))
    .digest('hex');
}

export function replyHeaders(headers: HttpHeaders, secret: Secret): HttpHeaders {
  const passed = [...headers].filter(
    ([name, value]) =>
      (TO_CLIENT.has(name) || name.startsWith(TO_CLIENT_PREFIX)) &&
      NAME.test(name) &&
      value.length <= MAX_VALUE_LENGTH &&
      VALUE.test(value),
  );
  // Limits, of which there may be many, have the last names.
  if (passed.length > MAX_HEADERS) passed.sort(([a], [b]) => (a < b ? -1 : 1));
  return new Map(passed.slice(0, MAX_HEADERS).map(([name, value]) => [name, secret.hide(value)]));
}
