import { type Message, ProtocolError, type RequestContext, RequestError } from '@parlance/protocol';
import {
  collectUpload,
  type IncomingHead,
  isJsonType,
  mediaTypeOf,
  messageLimitOf,
  readUpload,
} from '@parlance/protocol/internal';
import type { EndpointRequest } from './endpoints.js';
import { GatewayFailure } from './failure.js';
import { boundaryOf, FormScan } from './form.js';
import { GatewayBody } from './request-body.js';
import type { BodyChunks } from './upstream.js';

/** The body of a request, as it goes to the upstream. */
export interface UpstreamBody {
  readonly type: string;
  readonly content: Uint8Array | BodyChunks;
  /** The reply is kept. @default false */
  readonly isKept?: boolean;
}

/** A body that is JSON, or is taken for it. */
export async function readJsonBody(
  request: Message,
  { session, signal }: RequestContext,
  head: IncomingHead | undefined,
): Promise<GatewayBody> {
  const upload = head?.upload;
  if (head === undefined || upload === undefined) return new GatewayBody(request);
  assertDirect(request);
  assertStated(head, messageLimitOf(session));
  try {
    const bytes = await collectUpload(session, upload, signal);
    return new GatewayBody({ bytes, header: undefined });
  } catch (error) {
    throw signal.aborted ? error : bodyFailure(error);
  }
}

export interface FormOptions {
  readonly endpoint: EndpointRequest;
  readonly head: IncomingHead;
  /** Throws if a model is not allowed; `undefined` if all are. */
  readonly assertAllowed: ((model: string) => void) | undefined;
  /** Bytes. */
  readonly maxSize: number;
  readonly onModel: (model: string) => void;
  readonly onBytes: (count: number) => void;
}

/** Whether the body of a request is a form. */
export function isForm(head: IncomingHead | undefined): head is IncomingHead {
  return mediaTypeOf(head?.headers.get('content-type')).startsWith('multipart/');
}

/**
 * The content type of a body that is taken for JSON, for the upstream: as it was sent, unless a reader might then read something else
 * than what was checked.
 */
export function jsonTypeOf(head: IncomingHead | undefined): string {
  const type = head?.headers.get('content-type') ?? JSON_TYPE;
  const isUtf8 = [...type.matchAll(/charset\s*=\s*"?([^";\s]*)/gi)].every(([, name]) =>
    /^utf-?8$/i.test(name ?? ''),
  );
  return isJsonType(type) && isUtf8 ? type : JSON_TYPE;
}

const JSON_TYPE = 'application/json';

/**
 * A form, as it was written. If models are restricted, the upstream never gets the end of a form that names another one.
 *
 * @throws {GatewayFailure} `bad_request`, `model_not_allowed`, `body_too_large`.
 */
export function readForm(request: Message, { session }: RequestContext, options: FormOptions): UpstreamBody {
  const { head, endpoint } = options;
  const boundary = boundaryOf(head.headers.get('content-type'));
  if (boundary === undefined)
    throw new GatewayFailure('bad_request', 'a form with a plain boundary is required');
  const type = `multipart/form-data; boundary=${boundary}`;
  const check = endpoint.model === undefined ? undefined : checkOf(boundary, options);
  const { upload } = head;
  if (upload === undefined) {
    const { bytes } = new GatewayBody(request);
    assertSize(bytes.length, options);
    check?.push(bytes);
    check?.end();
    return { type, content: bytes };
  }
  assertDirect(request);
  assertStated(head, options.maxSize);
  return { type, content: (signal) => passOn(readUpload(session, upload, signal), check, options, signal) };
}

async function* passOn(
  chunks: AsyncIterable<Uint8Array>,
  check: Check | undefined,
  options: FormOptions,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let size = 0;
  try {
    for await (const chunk of chunks) {
      size += chunk.length;
      assertSize(size, options);
      check?.push(chunk);
      yield chunk;
    }
    check?.end();
  } catch (error) {
    throw signal.aborted ? error : bodyFailure(error);
  }
}

function assertSize(size: number, { maxSize, onBytes }: FormOptions): void {
  assertWithin(size, maxSize);
  onBytes(size);
}

/** A body that states to be too large is not asked for. */
function assertStated({ headers }: IncomingHead, maxSize: number): void {
  const stated = headers.get('content-length') ?? '';
  if (/^\d+$/.test(stated)) assertWithin(Number(stated), maxSize);
}

function assertWithin(size: number, maxSize: number): void {
  if (size > maxSize) throw new GatewayFailure('body_too_large', `the body has more than ${maxSize} bytes`);
}

type Check = Pick<FormScan, 'push' | 'end'>;

function checkOf(boundary: string, { assertAllowed, onModel }: FormOptions): Check {
  const scan = new FormScan(boundary, (model) => {
    assertAllowed?.(model);
    onModel(model.slice(0, 128));
  });
  if (assertAllowed !== undefined) return scan;
  // The upstream may accept more than the scan does.
  let isLost = false;
  return {
    push(piece) {
      if (isLost) return;
      try {
        scan.push(piece);
      } catch {
        isLost = true;
      }
    },
    end() {},
  };
}

/** Only a client itself can be asked for a body. */
function assertDirect({ from }: Message): void {
  if (from !== undefined)
    throw new GatewayFailure('bad_request', 'a body from another session cannot be streamed');
}

const TOO_LARGE: ReadonlySet<string> = new Set(['message_too_large', 'decompressed_too_large']);

function bodyFailure(error: unknown): unknown {
  if (error instanceof GatewayFailure) return error;
  if (error instanceof ProtocolError && TOO_LARGE.has(error.code)) {
    return new GatewayFailure('body_too_large', 'the body is larger than a message may be', { cause: error });
  }
  if (error instanceof RequestError || error instanceof ProtocolError) {
    return new GatewayFailure('bad_request', 'the body of the request could not be read', { cause: error });
  }
  return error;
}
