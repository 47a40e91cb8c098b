import { isProtocolError } from '../base/errors.js';

/** The code of the `ProtocolError` that `run` throws, or `none` if it returns. Rethrows other errors. */
export function errorCode(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (isProtocolError(error)) return error.code;
    throw error;
  }
  return 'none';
}
