import type { CapabilityOptions, RequestHandler } from '@parlance/protocol';
import type { EventFeed } from '../base/event-feed.js';
import type { Engine } from '../engine/engine.js';
import type { Seal } from '../engine/seal/keys.js';
import type { ServingOptions } from '../session/options.js';
import type { HttpOptions } from '../transport/http/options.js';

/** The options of the server itself, and not of its features. */
export interface ResolvedServerOptions extends HttpOptions, ServingOptions {
  /** Bytes. */
  readonly processMemory: number;
  readonly loopShare: number;
  /** Sessions come over HTTP, too. */
  readonly overHttp: boolean;
  readonly capabilities: Pick<CapabilityOptions, 'algorithms' | 'encodings'>;
  readonly onRequest: RequestHandler | undefined;
  /** Notified that a session begins, which may send requests soon. */
  readonly prepare: () => void;
  /** The feed of all events that `logger` gets. */
  readonly feed: EventFeed;
  /** Lets nodes find each other, and keeps records of sessions; `undefined` without one. */
  readonly engine: Engine | undefined;
  readonly seal: Seal | undefined;
}
