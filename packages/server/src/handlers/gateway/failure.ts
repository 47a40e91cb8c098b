import { ProtocolError } from '@parlance/protocol';

/** Failures of the gateway itself. Responses of the upstream, including errors, are passed on instead. */

interface GatewayErrorEntry {
  /** HTTP status, if none has been sent yet. */
  readonly status: number;
  readonly meaning: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
}

const ERRORS = {
  bad_request: {
    status: 400,
    meaning:
      'the request is malformed, names no model or several although models are restricted, or refers to stored responses although that is disabled',
    retryable: false,
  },
  model_not_allowed: { status: 403, meaning: 'the principal may not use this model', retryable: false },
  unknown_path: { status: 404, meaning: 'the path is not a supported endpoint', retryable: false },
  method_not_allowed: { status: 405, meaning: 'the endpoint does not have this method', retryable: false },
  body_too_large: {
    status: 413,
    meaning: 'the body is larger than the option `maxBodySize`, or than a message if it is JSON',
    retryable: false,
  },
  upstream_unreachable: {
    status: 502,
    meaning: 'the upstream could not be reached, or the gateway has no key for it',
    retryable: true,
  },
  upstream_interrupted: {
    status: 502,
    meaning: 'the upstream closed the connection before or during its response',
    retryable: true,
  },
  upstream_unusable: {
    status: 502,
    meaning:
      'the upstream redirected where the gateway cannot follow, or sent a body that cannot be decoded, a status above 599, or an event that is longer than a message',
    retryable: false,
  },
  upstream_timeout: {
    status: 504,
    meaning: 'the upstream was silent for 300 s before or during its response',
    retryable: true,
  },
} as const satisfies Record<string, GatewayErrorEntry>;

export type GatewayErrorCode = keyof typeof ERRORS;

/** All codes, for the documentation. */
export const GATEWAY_ERRORS: Readonly<Record<GatewayErrorCode, GatewayErrorEntry>> = ERRORS;

export class GatewayFailure extends Error {
  readonly code: GatewayErrorCode;

  /** For the log only. */
  readonly detail: Readonly<Record<string, string>>;

  /** @param message shown to the client, so it must not contain addresses or secrets. */
  constructor(
    code: GatewayErrorCode,
    message: string,
    { detail = {}, ...options }: ErrorOptions & { detail?: Readonly<Record<string, string>> } = {},
  ) {
    super(message, options);
    this.name = 'GatewayFailure';
    this.code = code;
    this.detail = detail;
  }

  /** HTTP status, if none has been sent yet. */
  get status(): number {
    return ERRORS[this.code].status;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }

  /** The error in OpenAI's shape. */
  toJson(): string {
    const { message, code } = this;
    return JSON.stringify({ error: { message, type: 'gateway_error', param: null, code } });
  }
}

/**
 * Runs a decoder on untrusted request data.
 *
 * @throws {GatewayFailure} `bad_request` if decoding fails.
 */
export function readRequest<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    throw new GatewayFailure('bad_request', `cannot read the request: ${cause.message}`, { cause });
  }
}
