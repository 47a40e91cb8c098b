import { CloseCode } from '../../base/close-codes.js';
import { ProtocolError } from '../../base/errors.js';

/**
 * Finds the errors that were thrown because a message of the peer cannot be decoded. Application code may
 * throw equal errors for other reasons, so each error is recorded with the message that threw it.
 */

/** The message that cannot be decoded, and an object that identifies its session. */
interface Fault {
  readonly message: object;
  readonly session: object;
}

const faults = new WeakMap<object, Fault>();
const OF_THE_SENDER: ReadonlySet<number> = new Set([CloseCode.BAD_FRAME, CloseCode.TOO_LARGE]);

/** Records that `message` threw `error`, if that means that it cannot be decoded. Returns the error. */
export function blame(error: unknown, message: object, session: object): unknown {
  if (error instanceof ProtocolError && OF_THE_SENDER.has(error.closeCode))
    faults.set(error, { message, session });
  return error;
}

/** Whether `error` was thrown because `message` cannot be decoded. */
export function isFaultOf(message: object, error: unknown): error is ProtocolError {
  return error instanceof ProtocolError && faults.get(error)?.message === message;
}

/** Whether `error` was thrown because a message that `session` received cannot be decoded. */
export function isFaultIn(session: object | undefined, error: unknown): error is ProtocolError {
  return session !== undefined && error instanceof ProtocolError && faults.get(error)?.session === session;
}

const refusals = new WeakSet<object>();

/** Records that an error of a handler is what its request deserves. Returns the error. */
export function refuse<Refusal extends Error>(error: Refusal): Refusal {
  refusals.add(error);
  return error;
}

/** Whether the requester, who gets the error, has caused it. */
export function isRefusal(error: unknown): boolean {
  return error instanceof ProtocolError && refusals.has(error);
}
