import { ProtocolError } from '@parlance/protocol';

/** What a gateway fails with by itself. What an upstream answers, errors included, is passed on instead. */

interface GatewayErrorEntry {
  /** The HTTP status where no other has been sent yet. */
  readonly status: number;
  readonly meaning: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
}

const ERRORS = {
  bad_request: {
    status: 400,
    meaning:
      'malformed, or names no model or several although only some are allowed, or refers to stored responses although that is off',
    retryable: false,
  },
  model_not_allowed: { status: 403, meaning: 'this principal may not use this model', retryable: false },
  unknown_path: { status: 404, meaning: 'no endpoint that is served', retryable: false },
  method_not_allowed: { status: 405, meaning: 'not POST', retryable: false },
  upstream_unreachable: {
    status: 502,
    meaning: 'nothing reached the upstream, or the gateway has no key for it',
    retryable: true,
  },
  upstream_interrupted: {
    status: 502,
    meaning: 'the upstream went away before its answer or in the middle of it',
    retryable: true,
  },
  upstream_unusable: {
    status: 502,
    meaning:
      'the upstream redirects, sends no UTF-8 or a status over 599, or an event over the limit of 8 Mi characters',
    retryable: false,
  },
  upstream_timeout: {
    status: 504,
    meaning: 'the upstream was silent for 300 s before its answer or within it',
    retryable: true,
  },
} as const satisfies Record<string, GatewayErrorEntry>;

export type GatewayErrorCode = keyof typeof ERRORS;

/** All codes, for documentation. */
export const GATEWAY_ERRORS: Readonly<Record<GatewayErrorCode, GatewayErrorEntry>> = ERRORS;

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
    return ERRORS[this.code].status;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
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
