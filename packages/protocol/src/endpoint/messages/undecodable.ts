import { CloseCode } from '../../base/close-codes.js';
import { ProtocolError } from '../../base/errors.js';

/**
 * Which errors say that what a peer has sent cannot be decoded. They look like any others, and user code may
 * throw one of something else: so they are known by the message that threw them.
 */

/** Whose fault an error is: the message, and an object that stands for its session. */
interface Fault {
  readonly message: object;
  readonly session: object;
}

const faults = new WeakMap<object, Fault>();
const OF_THE_SENDER: ReadonlySet<number> = new Set([CloseCode.BAD_FRAME, CloseCode.TOO_LARGE]);

/** Notes that `error` was thrown because `message` cannot be decoded, if that is so. Returns the error. */
export function blame(error: unknown, message: object, session: object): unknown {
  if (error instanceof ProtocolError && OF_THE_SENDER.has(error.closeCode))
    faults.set(error, { message, session });
  return error;
}

/** Whether `error` was thrown because `message` cannot be decoded. */
export function isFaultOf(message: object, error: unknown): error is ProtocolError {
  return error instanceof ProtocolError && faults.get(error)?.message === message;
}

/** Whether `error` was thrown because something that `session` has received cannot be decoded. */
export function isFaultIn(session: object | undefined, error: unknown): error is ProtocolError {
  return session !== undefined && error instanceof ProtocolError && faults.get(error)?.session === session;
}
