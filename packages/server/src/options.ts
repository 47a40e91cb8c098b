import type {
  CapabilityOptions,
  Limits,
  Logger,
  M2MSecurity,
  RequestHandler,
  Timers,
} from '@parlance/protocol';
import type { Authenticate } from './admission/admission.js';
import type { Backplane } from './backplane/backplane.js';
import type { TrustedProxies } from './http/addresses.js';
import type { EventFeed } from './observe/event-feed.js';
import type { Seal } from './seal/keys.js';
import type { ServerSession } from './served-session.js';

/** The options of the server itself, and not of its features. */
export interface ResolvedServerOptions {
  readonly path: string;
  readonly origins: readonly string[];
  readonly hosts: readonly string[];
  readonly limits: Limits;
  /** Bytes. */
  readonly processMemory: number;
  readonly loopShare: number;
  readonly maxAssembledSize: number;
  readonly timers: Timers;
  readonly capabilities: Pick<CapabilityOptions, 'algorithms' | 'encodings'>;
  readonly authenticate: Authenticate | undefined;
  readonly onSession: ((session: ServerSession) => void | Promise<void>) | undefined;
  readonly onRequest: RequestHandler | undefined;
  readonly logger: Logger;
  /** What {@link logger} gets. */
  readonly feed: EventFeed;
  readonly security: M2MSecurity | undefined;
  readonly trustedProxies: TrustedProxies;
  /** Where nodes find each other and sessions are put on record; `undefined` without one. */
  readonly engine: Backplane | undefined;
  readonly seal: Seal | undefined;
}
