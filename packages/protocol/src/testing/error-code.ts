import { isProtocolError } from '../base/errors.js';

/** The code of the `ProtocolError` that `run` throws, `none` where it returns. Other errors are rethrown. */
export function errorCode(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (isProtocolError(error)) return error.code;
    throw error;
  }
  return 'none';
}
