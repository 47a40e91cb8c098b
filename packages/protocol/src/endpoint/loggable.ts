import { ProtocolError, RequestError } from '../base/errors.js';

/** What a log may say about an error. */
export interface LoggableError {
  readonly type: string;
  /** Of our own errors. */
  readonly code?: string;
  readonly message?: string;
  /** Where it was thrown. */
  readonly at: readonly string[];
  readonly cause?: LoggableError;
}

const MAX_FRAMES = 10;
const MAX_CAUSES = 3;

/**
 * An error as a log may hold it: of what kind it is and where it was thrown. What the errors of others say is
 * left out, as it may quote what they were given: `JSON.parse` shows the beginning of a text that is no JSON,
 * and many a library the token that it could not read. Our own messages hold neither payloads nor tokens.
 */
export function loggable(error: unknown, causes = MAX_CAUSES): LoggableError {
  try {
    return describe(error, causes);
  } catch {
    // Its own getters, or those of a proxy, throw.
    return { type: 'unreadable', at: [] };
  }
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

/** The lines of a stack that name places: what comes before them is the message again. */
function framesOf({ stack = '', message }: Error): string[] {
  const begin = stack.indexOf(message);
  const places = begin < 0 ? stack : stack.slice(begin + message.length);
  return places
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at ') || /^[^\s@]*@\S+:\d+:\d+$/.test(line))
    .slice(0, MAX_FRAMES);
}
