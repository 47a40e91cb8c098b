import { BodyCodec, type ReceivedBody } from '@parlance/protocol';

/** Of a request that another node has read. */
export const NO_BODY: ReceivedBody = {
  codec: BodyCodec.PLAIN,
  bytes: new Uint8Array(0),
  originalLength: 0,
  secret: false,
  metadata: undefined,
  charge: 0,
};
