import { ProtocolError, RequestError } from '../base/errors.js';

/** The parts of an error that may be logged. */
export interface LoggableError {
  readonly type: string;
  /** Only of our own errors, as the message. */
  readonly code?: string;
  readonly message?: string;
  /** The stack, without the message. */
  readonly at: readonly string[];
  readonly cause?: LoggableError;
}

const MAX_FRAMES = 10;
const MAX_CAUSES = 3;

/**
 * Describes an error for a log: its type and where it was thrown. Messages of foreign errors are left out,
 * because they may quote input: `JSON.parse` quotes the beginning of invalid JSON, and many libraries quote
 * the token that they could not read. Our own messages contain neither payloads nor tokens.
 */
export function loggable(error: unknown, causes = MAX_CAUSES): LoggableError {
  let description: LoggableError;
  try {
    description = describe(error, causes);
  } catch {
    // A getter of the error, or a proxy, throws.
    description = { type: 'unreadable', at: [] };
  }
  originals.set(description, { error });
  return description;
}

/** The errors that were described; `onError` gets them, and no log does. */
const originals = new WeakMap<object, { readonly error: unknown }>();

/** The error that `description` was made of; `undefined` for anything else. */
export function originalOf(description: unknown): { readonly error: unknown } | undefined {
  return typeof description === 'object' && description !== null ? originals.get(description) : undefined;
}

function describe(error: unknown, causes: number): LoggableError {
  if (!(error instanceof Error)) return { type: typeof error, at: [] };
  const own = error instanceof ProtocolError && !(error instanceof RequestError);
  return {
    type: error.name,
    ...(error instanceof ProtocolError && { code: error.code }),
    ...(own && { message: error.message }),
    at: framesOf(error),
    ...(error.cause !== undefined && causes > 0 && { cause: loggable(error.cause, causes - 1) }),
  };
}

/** The lines of a stack that name places, without the message before them. */
function framesOf({ stack = '', message }: Error): string[] {
  const begin = stack.indexOf(message);
  const places = begin < 0 ? stack : stack.slice(begin + message.length);
  return places
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at ') || /^[^\s@]*@\S+:\d+:\d+$/.test(line))
    .slice(0, MAX_FRAMES);
}
