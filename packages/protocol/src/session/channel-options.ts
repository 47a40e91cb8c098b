import type { Fields, StringMap } from '../base/fields.js';
import type { CodedBody } from '../codec/body.js';
import type { DataPayload } from '../control/messages.js';
import type { LinkOptions } from '../link/link.js';
import type { Outbox } from '../link/outbox.js';
import type { RateLimiter } from '../link/rates.js';
import type { LastStreams } from '../link/streams.js';
import type { BodyRulesOptions } from './body-rules.js';

/** `Have` and `KeptBodies` in their form on the wire. */
export interface TakenUpBodies {
  /** The bodies that the page before had, as it left them. */
  readonly have: Fields;
  /** The bodies that the server has. */
  readonly kept: Fields;
}

export interface ChannelOptions extends BodyRulesOptions {
  /** The extensions that this end stated. */
  readonly ownExtensions: StringMap;
  readonly outbox: Outbox;
  /** The code of requests, answers and tensors. */
  readonly streams: LinkOptions['streams'];
  /** Server: enforces the rates that it announced. */
  readonly limiter?: RateLimiter | undefined;
  /** Client: the streams of the session that this page has taken up. @default none */
  readonly last?: LastStreams | undefined;
  /** Client: the state of the recorded session that this page took up from the page before. @default none */
  readonly takenUp?: TakenUpBodies | undefined;
  /** Server: the most bytes that the record of a session may have. @default Infinity */
  readonly maxRecordSize?: number | undefined;
  /** Server: parts do not wait until they are recorded. @default false */
  readonly tellsBeside?: boolean | undefined;
  /** Writes DATA envelopes; `undefined` in `m2m.v1`, which has bare frames instead. */
  readonly envelopes: { sendData(payload: DataPayload, body: CodedBody): void } | undefined;
}
