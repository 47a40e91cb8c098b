import type { IncomingHttpHeaders } from 'node:http';
import { CloseCode } from '@parlance/protocol';
import { failed, type Refusal } from '../../transport/http/site.js';

/** Pure decisions about an upgrade and a HELLO: whether the client may connect. */

/** The server's knowledge of a client that wants a session. */
export interface Credentials {
  /** From HELLO, or from an `Authorization: Bearer` header. */
  readonly token: string | undefined;
  /** The `Origin` header; browsers always send it. */
  readonly origin: string | undefined;
  /** As HELLO states it; unproven until `authenticate` confirms it. */
  readonly agentId: string | undefined;
  /** The client's address, as reported by trusted proxies if there are any. */
  readonly ip: string;
  /** The headers of the upgrade request. */
  readonly headers: IncomingHttpHeaders;
}

/** @typeParam Data what the session begins with as its `data`. */
export interface Identity<Data = unknown> {
  /** The account that the client belongs to. A session can be resumed only by the same principal. */
  readonly principal: string;
  readonly agentId?: string | undefined;
  /** When the credentials expire, in Unix milliseconds, 2001 or later: a JWT has seconds. @default Infinity (never) */
  readonly expiresAt?: number | undefined;
  /**
   * The value of `session.data` when the session begins: JSON of at most 64 KiB. A client that comes back to its
   * session is authenticated again, which does not change the data.
   *
   * @default undefined
   */
  readonly data?: Data | undefined;
}

/** An identity that was checked, with its data as JSON. */
export type CheckedIdentity = Omit<Identity<string>, 'data'> & { readonly dataText?: string | undefined };

/**
 * Returns the client's identity; `null` or another falsy value refuses the client. If it throws, or returns anything
 * else, such as an object with other members, the client is notified that the server has failed and that it may try
 * again, and the error goes to `onError` and the log.
 */
export type Authenticate<Data = unknown> = (
  credentials: Credentials,
) => Identity<Data> | false | '' | null | undefined | Promise<Identity<Data> | false | '' | null | undefined>;

/**
 * The refusal of a client that could not be authenticated.
 *
 * @param token the token that the client presented.
 * @param isLocal whether the server serves only clients on its own machine.
 */
export function unauthenticated(token: string | undefined, isLocal: boolean): Refusal {
  const presented = token === undefined ? 'no token was presented' : 'the token is wrong or expired';
  return {
    code: 'SECURITY_POLICY',
    message: isLocal
      ? 'this server has no authenticate option, so it serves only clients on its own machine'
      : `credentials are required: ${presented}`,
    closeCode: CloseCode.UNAUTHENTICATED,
  };
}

/** The refusals of a client whose credentials the application has not checked. */
export const UNCHECKED = {
  failed: failed('the server failed to check the credentials'),
  late: failed('the server has not checked the credentials in time'),
};
