import { isApplicationCode, ProtocolError } from '../base/errors.js';
import { assertOptions, type OptionKinds } from '../base/options.js';
import { MAX_MESSAGE_LENGTH } from '../control/maps.js';
import { isAgentAddress, isAgentId } from '../link/addressing.js';
import type { CloseOptions, OwnEvents, RequestOptions, SendOptions } from './session.js';

/** Checks the options and event names that an application passes to a session. */

const SEND: OptionKinds<SendOptions> = {
  algorithm: 'text',
  compressAlone: 'flag',
  signal: 'signal',
  to: 'text',
  retryUnsent: 'flag',
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

/**
 * The address of the option `to`.
 *
 * @throws {ProtocolError} `unsupported` at a server, `invalid_argument` for an invalid agent ID.
 */
export function recipientOf(
  { reachesAgents }: { readonly reachesAgents: boolean },
  to: string | undefined,
): string | undefined {
  if (to === undefined) return undefined;
  if (!reachesAgents) {
    throw new ProtocolError('unsupported', 'to: a session of a server sends to its own client only');
  }
  if (isAgentId(to) || isAgentAddress(to)) return to;
  throw new ProtocolError(
    'invalid_argument',
    'to: expected an agent ID (1 to 128 letters, digits, - and _) or an address from agents()',
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
export function assertEventName(name: string): void {
  if (Object.hasOwn(EVENTS, name)) return;
  throw new ProtocolError(
    'invalid_argument',
    `a session has no event "${String(name).slice(0, 64)}"; known events: ${Object.keys(EVENTS).join(', ')}. Events of your own are those of a contract: session.handle(name, handler) takes them, with events(contract) of @parlance/client/contract and @parlance/server/contract`,
  );
}
