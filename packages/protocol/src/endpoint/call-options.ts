import { isApplicationCode, ProtocolError } from '../base/errors.js';
import { assertOptions, type OptionKinds } from '../base/options.js';
import { MAX_MESSAGE_LENGTH } from '../control/maps.js';
import type { CloseOptions, OwnEvents, RequestOptions, SendOptions } from './session.js';

/** Checks the options and event names that an application passes to a session. */

const SEND: OptionKinds<SendOptions> = {
  algorithm: 'text',
  secret: 'flag',
  signal: 'signal',
  to: 'text',
  retry: 'flag',
};
const REQUEST: OptionKinds<RequestOptions> = { ...SEND, timeoutMs: 'number', metadata: 'object' };
/** @throws {ProtocolError} `invalid_option`. */
export function assertSendOptions(options: SendOptions): void {
  if (options !== NONE) assertOptions(options, SEND);
}

/** @throws {ProtocolError} `invalid_option`. */
export function assertRequestOptions(options: RequestOptions): void {
  if (options === NONE) return;
  assertOptions(options, REQUEST);
  const { timeoutMs } = options;
  if (timeoutMs === undefined || timeoutMs > 0) return;
  throw new ProtocolError('invalid_option', `timeoutMs: expected more than 0 milliseconds, not ${timeoutMs}`);
}

/** @throws {ProtocolError} `invalid_option`. */
export function assertCloseOptions(options: CloseOptions): void {
  if (options === NONE) return;
  assertOptions(options, { code: 'text', reason: 'text' });
  const { code, reason = '' } = options;
  if ((code === undefined || isApplicationCode(code)) && reason.length <= MAX_MESSAGE_LENGTH) return;
  throw new ProtocolError(
    'invalid_option',
    'close: code must be 1 to 64 characters of a-z, 0-9 and _, and reason at most 1024 characters',
  );
}

/** The default of all options; it need not be checked. */
export const NONE = Object.freeze({});

/** The events of every session. */
export const EVENTS = {
  state: true,
  reset: true,
  error: true,
  undelivered: true,
  throttled: true,
  unread: true,
} as const satisfies Record<keyof OwnEvents, true>;

/** @throws {ProtocolError} `invalid_argument` for an unknown event. */
export function assertEventName(name: string, known: Readonly<Record<string, true>>): void {
  if (Object.hasOwn(known, name)) return;
  throw new ProtocolError(
    'invalid_argument',
    `a session has no event "${String(name).slice(0, 64)}"; known events: ${Object.keys(known).join(', ')}`,
  );
}
