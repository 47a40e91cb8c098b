import type { ProtocolError } from '../base/errors.js';
import type { BodyCodec } from '../codec/body.js';
import type { GoAwayPayload, HelloPayload } from '../control/messages.js';
import type { LinkEvent } from '../link/link.js';
import type { RateName } from '../link/rates.js';

/** The states that the application sees. */
export type SessionState = 'connecting' | 'established' | 'suspended' | 'closing' | 'closed';

export type SessionEvent =
  | LinkEvent
  /**
   * Client: the session that the options named continues, with a rebuilt link. `cancelled` lists the requests of the former
   * page that this has interrupted.
   */
  | { readonly type: 'takenUp'; readonly cancelled: readonly number[] }
  /** Client: the session continues, and its record lacks commits of which this end has seen effects. Nothing arrived since. */
  | { readonly type: 'behind' }
  /** Server: call `accept` or `reject`, at once or later. */
  | { readonly type: 'hello'; readonly hello: HelloPayload }
  | { readonly type: 'state'; readonly state: SessionState }
  | { readonly type: 'warning'; readonly message: string }
  /** The sender waits for this rate: this end if it is a client, else its peer. At most one a minute. */
  | { readonly type: 'throttled'; readonly throttled: Throttled }
  /** Bodies in this codec wait for its code: load it, then call `releaseFrames`. */
  | { readonly type: 'codec'; readonly codec: BodyCodec }
  /** Frames of requests, answers or tensors wait for the code of streams: load it, then call `releaseFrames`. */
  | { readonly type: 'streams' }
  /** Server: the client has loaded the code of more codecs, so `awaitedCodecs` has changed. */
  | { readonly type: 'ready' }
  /**
   * Client: the server could not resume the session and has begun a new one on the same connection with this
   * frame. The session has ended; `ended` follows.
   */
  | { readonly type: 'superseded'; readonly accept: Uint8Array | string }
  /** Server: the client has sent new credentials; call `grant` or `abort`. */
  | { readonly type: 'auth'; readonly token: string }
  /** Client: its credentials expire in so many milliseconds; `Infinity` if they do not. */
  | { readonly type: 'granted'; readonly expiresInMs: number }
  /**
   * Client: the server drains. It accepts no new requests, and the session ends at the deadline. With `move`, the driver
   * opens another connection instead, and when that is open calls `handleDisconnected` and `handleConnected`.
   */
  | ({ readonly type: 'goaway' } & GoAwayPayload)
  /** Close the connection with this code once everything before it is transmitted. */
  | { readonly type: 'disconnect'; readonly closeCode: number; readonly reason: string }
  /** The last event of a session; without an error the session ended as agreed. */
  | { readonly type: 'ended'; readonly error: ProtocolError | undefined };

/** A rate limit that a client keeps by waiting; see the limits in the documentation of the protocol. */
export interface Throttled {
  readonly limit: RateName;
  /** The value of the limit. */
  readonly rate: number;
}
