import { CloseCode, isProtocolError, type ProtocolError, type RequestError } from '../index.js';

/** Why something has failed, for the user of a page to read in words of the application. */
export interface Failure {
  /**
   * A code: that of the error; if the server has refused the session, `unauthenticated`, `forbidden` or the code of its
   * REJECT in lower case, such as `rate_limited`; `unknown` for an error of the application. `undefined` without a failure.
   */
  readonly code: string | undefined;
  /** A `ProtocolError` or a `RequestError`, unless the application has thrown another one. `undefined` without a failure. */
  readonly error: ProtocolError | RequestError | Error | undefined;
}

export const NO_FAILURE: Failure = { code: undefined, error: undefined };

export function failureOf(error: unknown): Failure {
  try {
    if (isProtocolError(error)) return { code: reasonOf(error), error };
    if (error instanceof Error) {
      // A page shows these, and a proxy may throw when it is looked at.
      void [error.name, error.message, error.stack];
      return { code: 'unknown', error };
    }
  } catch {
    return { code: 'unknown', error: new Error('an error that cannot be read', { cause: error }) };
  }
  return {
    code: 'unknown',
    error: new Error('what was thrown is not an error: see cause', { cause: error }),
  };
}

/** The server refuses with SECURITY_POLICY for several reasons, which its close code tells apart. */
function reasonOf({ code, reject, closeCode }: ProtocolError | RequestError): string {
  if (closeCode === CloseCode.UNAUTHENTICATED) return 'unauthenticated';
  if (closeCode === CloseCode.FORBIDDEN) return 'forbidden';
  return reject?.code.toLowerCase() ?? code;
}
