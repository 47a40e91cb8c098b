import type { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import type { MemoryBudget } from '../base/memory-budget.js';
import type { M2MSecurity } from '../codec/m2m/security.js';
import type { Clock } from '../platform/clock.js';
import type { SessionCore, SessionEvent } from '../session/types.js';
import type { EventRoute, Logger } from './ports.js';
import type { ResolvedBatchOptions } from './requests/batch.js';
import type { RequestHandler } from './requests/responder.js';
import type { Scan } from './scan.js';
import type { TransferMode } from './tensors/receiver.js';

/** What the driver of a connection gives to its endpoint. */
export interface EndpointOptions {
  readonly core: SessionCore;
  /**
   * Client: a fresh core, for when the session is lost. With it the endpoint outlives its session and
   * goes on under a new ID; without it a lost session ends it.
   */
  readonly renew?: (() => SessionCore) | undefined;
  readonly clock: Clock;
  /** Lets others have the event loop, between two slices of work that takes long. @default as the clock does */
  readonly yield?: (() => Promise<void>) | undefined;
  readonly limits: Limits;
  /** Of the process, which the session takes part in. @default the session is bounded by itself */
  readonly memory?: MemoryBudget | undefined;
  /** Bytes of a tensor that is assembled. @default MAX_ASSEMBLED_SIZE */
  readonly maxAssembledSize?: number | undefined;
  readonly role: 'client' | 'server';
  /** One-way messages and tensors have a reader; those without are refused. @default true */
  readonly takesMessages?: boolean | undefined;
  readonly onRequest?: RequestHandler | undefined;
  /** How the parts of replies are joined. @default not at all */
  readonly batch?: ResolvedBatchOptions | undefined;
  readonly security?: M2MSecurity | undefined;
  /** Server: where what is not for its own user goes. */
  readonly route?: EventRoute | undefined;
  /** @default 'assemble' */
  readonly transfers?: TransferMode | undefined;
  readonly logger?: Logger | undefined;
  /** Looks at what arrives before anybody else does. */
  readonly scan?: Scan | undefined;
  /** What requests carry as `traceparent`, where their metadata has none (W3C Trace Context). */
  readonly traceparent?: (() => string | undefined) | undefined;
  /** Server: answers a HELLO with the core's `accept` or `reject`. */
  readonly onHello?: ((event: Extract<SessionEvent, { type: 'hello' }>) => void) | undefined;
  /** Server: the client has sent new credentials; answer with `grant` or `abort`. */
  readonly onAuth?: ((token: string) => void) | undefined;
  /** Client: the credentials of the connection are good for this long. */
  readonly onGranted?: ((expiresInMs: number) => void) | undefined;
  /** The session was accepted, and what it needs is being loaded. */
  readonly onAccepted?: (() => void) | undefined;
  /** The session was accepted and everything that it needs is loaded. */
  readonly onReady?: (() => void) | undefined;
  /**
   * The connection is gone and the endpoint wants another one.
   *
   * @param retryAfterMs how long the server asked to wait before it, 0 where it did not.
   */
  readonly onWireLost?: ((retryAfterMs: number) => void) | undefined;
  /** The session is over; called once. */
  readonly onEnded?: ((error: ProtocolError | undefined) => void) | undefined;
}
