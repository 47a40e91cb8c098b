import type { CodedBody, SecurityStatus } from '../codec/body.js';
import type { OutgoingBody } from './frame.js';

/** A coded body, and what the link needs to know to send it. */
export interface BodyToSend extends CodedBody, Pick<OutgoingBody, 'address' | 'onWritten' | 'onDropped'> {
  /**
   * Only for a request: its reply is relayed to another session, so the unread bytes of the reply count until
   * they are consumed, even after the stream is over.
   */
  readonly relayed?: boolean | undefined;
  /** The result of a scan; sent in `m2m.v1.json` only. */
  readonly securityStatus?: SecurityStatus | undefined;
}

export const bodyOf = (kind: OutgoingBody['kind'], streamId: number, coded: BodyToSend): OutgoingBody => ({
  kind,
  streamId,
  codec: coded.codec,
  bytes: coded.bytes,
  originalLength: coded.originalLength,
  secret: coded.secret,
  metadata: coded.metadata,
  deferred: coded.deferred,
  address: coded.address,
  alias: undefined,
  onWritten: coded.onWritten,
  onDropped: coded.onDropped,
});
