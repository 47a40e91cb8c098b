import type { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import type { MemoryBudget } from '../base/memory-budget.js';
import type { M2MSecurity } from '../codec/m2m/security.js';
import type { Negotiated } from '../control/agreement.js';
import type { GoAwayPayload } from '../control/messages.js';
import type { Clock } from '../platform/clock.js';
import type { ChannelModule } from '../session/channel-module.js';
import type { SessionCore, SessionEvent } from '../session/types.js';
import type { CodecLoader } from './codec-loader.js';
import type { Mailbox } from './messages/mailbox.js';
import type { ContentScanner, EventRoute, Logger, ScannerHost } from './ports.js';
import type { ResolvedBatchOptions } from './requests/batch-options.js';
import type { ReplyKeeper } from './requests/keeping.js';
import type { RequestHandler } from './requests/responder.js';
import type { Session, SessionEvents } from './session.js';
import type { TransferMode } from './tensors/receiver.js';

/** The options that the driver of a connection passes to the endpoint of one session. */
export interface EndpointOptions {
  readonly core: SessionCore;
  readonly clock: Clock;
  /** Lets the event loop run between two slices of long work. @default the `yield` of the clock */
  readonly yield?: (() => Promise<void>) | undefined;
  readonly limits: Limits;
  /** The memory budget of the process. @default the session has a budget of its own */
  readonly memory?: MemoryBudget | undefined;
  /** Bytes of a tensor that is assembled. @default MAX_ASSEMBLED_SIZE */
  readonly maxAssembledSize?: number | undefined;
  readonly role: 'client' | 'server';
  /** One-way messages and tensors have a reader; without one they are refused. @default true */
  readonly takesMessages?: boolean | undefined;
  readonly onRequest?: RequestHandler | undefined;
  /** How the parts of replies are joined. @default each part is sent by itself */
  readonly batch?: ResolvedBatchOptions | undefined;
  readonly security?: M2MSecurity | undefined;
  /** Loads codecs. @default the loader of the platform */
  readonly codecs?: CodecLoader | undefined;
  /** @default 'assemble' */
  readonly transfers?: TransferMode | undefined;
  readonly logger?: Logger | undefined;
  /** The `traceparent` of requests whose metadata has none (W3C Trace Context). */
  readonly traceparent?: (() => string | undefined) | undefined;
  /** The session that handlers are given. @default the endpoint's own `Endpoint.session` */
  readonly userSession?: Session | undefined;
  /** Takes received messages. @default a mailbox of this session */
  readonly mailbox?: Mailbox | undefined;

  // --- server

  /** Takes the events that concern other sessions. */
  readonly route?: EventRoute | undefined;
  /** Creates the scanner of the session. @default content is not scanned */
  readonly createScanner?: ((host: ScannerHost) => ContentScanner) | undefined;
  /** Keeps what handlers reply. @default nothing is kept */
  readonly keeper?: ReplyKeeper | undefined;
  /** Answers a HELLO with the core's `accept` or `reject`. */
  readonly onHello?: ((event: Extract<SessionEvent, { type: 'hello' }>) => void) | undefined;
  /** The client has sent new credentials; answer with `grant` or `abort`. */
  readonly onAuth?: ((token: string) => void) | undefined;

  // --- client

  /** In a page: codecs are loaded when this has settled. @default soon after the session has begun */
  readonly codecsAfter?: PromiseLike<unknown> | undefined;
  /**
   * Loads the code of the channel. Called if the ends agreed on no link, or on a recorded session.
   *
   * @default the session was created with it
   */
  readonly channelOf?: ((negotiated: Negotiated) => Promise<ChannelModule>) | undefined;

  /** The credentials of the connection are valid for this long. */
  readonly onGranted?: ((expiresInMs: number) => void) | undefined;
  /** The server drains. */
  readonly onGoAway?: ((goAway: GoAwayPayload) => void) | undefined;
  /** The session that the core was asked to take up continues. @param cancelled the requests that this interrupted. */
  readonly onTakenUp?: ((cancelled: readonly number[]) => void) | undefined;
  /** The server has begun another session on this connection, with this ACCEPT; this one ends. */
  readonly onSuperseded?: ((accept: Uint8Array | string) => void) | undefined;
  /** Server: the session has been idle for a while, and lets go of what it makes again. */
  readonly onRest?: (() => void) | undefined;
  /** All events of the core were handled. */
  readonly onApplied?: (() => void) | undefined;
  /**
   * Called before the end of the session is reported. Returns the error that it is reported with; `undefined`
   * for an end in order.
   */
  readonly onEnding?: ((error: ProtocolError | undefined) => ProtocolError | undefined) | undefined;

  // --- both

  /** The session was accepted, and the codecs that it agreed on are being loaded. */
  readonly onAccepted?: (() => void) | undefined;
  /** The session was accepted, and its codecs are loaded. */
  readonly onReady?: (() => void) | undefined;
  /** Takes the events of the session. @default the listeners of `Endpoint.session` */
  readonly onNotify?:
    | (<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]) => void)
    | undefined;
  /**
   * The connection is gone and the session needs another one.
   *
   * @param retryAfterMs how long the server asked to wait before it, 0 if it did not.
   */
  readonly onWireLost?: ((retryAfterMs: number) => void) | undefined;
  /** The session is over; called once. */
  readonly onEnded?: ((error: ProtocolError | undefined) => void) | undefined;
}
