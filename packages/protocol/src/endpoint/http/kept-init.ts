import { copyBytes } from '../../base/bytes.js';
import { bytesOf } from '../messages/part.js';

/** The classes of the Fetch API for bodies and headers that can change. */
interface FetchGlobals {
  readonly Request?: new () => object;
  readonly Headers: new (headers: unknown) => object;
  readonly URLSearchParams?: new (parameters: unknown) => object;
  readonly FormData?: new () => object & Iterable<readonly [string, unknown]> & Form;
}
interface Form {
  append(name: string, value: unknown): void;
}

/**
 * The options of `fetch`, whose body and headers the caller may change as soon as the call returns. A stream is read when its
 * turn comes, and a `Blob` or a string does not change.
 */
export function keptInit<Init extends object>(init: Init): Init {
  const { Request, Headers } = globalThis as unknown as FetchGlobals;
  // A Request has getters, and headers and a body that are its own.
  if (Request !== undefined && init instanceof Request) return init;
  const { body, headers } = init as { readonly body?: unknown; readonly headers?: unknown };
  return {
    ...init,
    ...(headers ? { headers: new Headers(headers) } : {}),
    ...(body ? { body: kept(body) } : {}),
  };
}

function kept(body: unknown): unknown {
  const { URLSearchParams, FormData } = globalThis as unknown as FetchGlobals;
  const bytes = bytesOf(body);
  if (bytes !== undefined) return copyBytes(bytes);
  if (URLSearchParams !== undefined && body instanceof URLSearchParams) return new URLSearchParams(body);
  if (FormData === undefined || !(body instanceof FormData)) return body;
  const form = new FormData();
  for (const [name, value] of body) form.append(name, value);
  return form;
}
