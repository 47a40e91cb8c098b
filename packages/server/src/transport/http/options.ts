import type { Limits, Logger, Timers } from '@parlance/protocol';
import type { WireKind } from '../websocket/ws.js';
import type { SiteOptions } from './site.js';

/** The options that the HTTP side of a server needs. */
export interface HttpOptions extends SiteOptions {
  /** Of the endpoint of sessions. */
  readonly path: string;
  readonly limits: Limits;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly wire: WireKind | undefined;
  /** HELLO is read from upgrade requests. */
  readonly earlyHello: boolean;
}
