import { RequestError } from '@parlance/protocol';
import { get, isFields } from '@parlance/protocol/internal';

/**
 * The failure of a model as the client gets it: see {@link responseErrorOf}; anything else as `model_failed`.
 */
export function modelErrorOf(error: unknown): RequestError {
  return responseErrorOf(error) ?? new RequestError('model_failed', 'the model failed', { cause: error });
}

/**
 * A `RequestError` as it is, and a response with an error status as `rate_limited` (429) or `upstream_status`, with the
 * status in `data`; otherwise `undefined`. The provider's message is not passed on, because it may quote keys,
 * addresses and the accounts of others.
 */
export function responseErrorOf(error: unknown): RequestError | undefined {
  if (error instanceof RequestError) return error;
  const { status, retryAfterMs } = responseOf(error);
  if (status === undefined) return undefined;
  const isRateLimited = status === 429;
  const message = isRateLimited
    ? 'the model gets too many requests'
    : `the model responded with status ${status}`;
  const code = isRateLimited ? 'rate_limited' : 'upstream_status';
  const retryable = isRateLimited || status >= 500;
  return new RequestError(code, message, { cause: error, retryable, retryAfterMs, data: { status } });
}

/** Finds the response in an `APICallError`, or in the last error of a `RetryError`. */
function responseOf(error: unknown): {
  readonly status?: number;
  readonly retryAfterMs?: number | undefined;
} {
  if (!(error instanceof Error)) return {};
  const { lastError, statusCode, responseHeaders } = error as Error & Record<string, unknown>;
  if (lastError instanceof Error && lastError !== error) return responseOf(lastError);
  if (typeof statusCode !== 'number' || !(statusCode >= 400 && statusCode <= 599)) return {};
  const seconds = isFields(responseHeaders) ? Number(get(responseHeaders, 'retry-after')) : Number.NaN;
  return { status: statusCode, retryAfterMs: seconds > 0 && seconds < 86_400 ? seconds * 1_000 : undefined };
}
