import { ProtocolError } from '@parlance/protocol';

/** What a gateway fails with by itself. What an upstream answers, errors included, is passed on instead. */

const STATUSES = {
  /** The request cannot be read, or says two things at once. */
  bad_request: 400,
  /** The principal may not use this model. */
  model_not_allowed: 403,
  /** Not one of the endpoints that are carried. */
  unknown_path: 404,
  method_not_allowed: 405,
  /** Nothing of the request has reached the upstream. */
  upstream_unreachable: 502,
  /** The upstream went away, before its answer or in the middle of it. */
  upstream_interrupted: 502,
  /** What came from the upstream cannot be passed on: a redirect, no text, or an event beyond the limit. */
  upstream_unusable: 502,
  /** The upstream was silent for too long. */
  upstream_timeout: 504,
} as const satisfies Record<string, number>;

export type GatewayErrorCode = keyof typeof STATUSES;

/** Codes after which the same request may succeed. */
const RETRYABLE: ReadonlySet<GatewayErrorCode> = new Set([
  'upstream_unreachable',
  'upstream_interrupted',
  'upstream_timeout',
]);

export class GatewayFailure extends Error {
  readonly code: GatewayErrorCode;

  /** @param message for the client: never an address, never a secret. */
  constructor(code: GatewayErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'GatewayFailure';
    this.code = code;
  }

  /** The HTTP status where no other has been sent yet. */
  get status(): number {
    return STATUSES[this.code];
  }

  get retryable(): boolean {
    return RETRYABLE.has(this.code);
  }

  /** In the shape that clients of such APIs read errors in. */
  toJson(): string {
    const { message, code } = this;
    return JSON.stringify({ error: { message, type: 'gateway_error', param: null, code } });
  }
}

/**
 * What `read` finds in a request, which may not be what it says it is.
 *
 * @throws {GatewayFailure} `bad_request`.
 */
export function readRequest<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    throw new GatewayFailure('bad_request', `the request cannot be read: ${cause.message}`, { cause });
  }
}
