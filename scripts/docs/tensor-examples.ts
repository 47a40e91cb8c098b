import {
  encodeTrailer,
  encodeTransferHead,
  TRAILER_SIZE,
  TransferReader,
} from '../../packages/protocol/src/codec/avp/transfer.js';
import { BodyCodec } from '../../packages/protocol/src/codec/body.js';
import { decodeLinkFrame, LinkKind } from '../../packages/protocol/src/link/frame.js';
import { PieceTracker } from '../../packages/protocol/src/link/pieces.js';
import { SourcedBody } from '../../packages/protocol/src/link/streamed-body.js';
import { platform } from '../../packages/protocol/src/platform/node.js';

/** A tensor of two numbers, cut into two frames as a large one is cut into many, and decoded again as a check. */
export function tensorFrames(): ReadonlyMap<string, Uint8Array> {
  const data = new Uint8Array(Float32Array.of(0.5, -2).buffer);
  const description = {
    shape: [2],
    dtype: 'float32',
    payloadType: 'hidden_state',
    metadata: { modelId: 'm' },
  } as const;
  const head = encodeTransferHead(description, data.length);
  const totalLength = head.length + data.length + TRAILER_SIZE;
  const body = new SourcedBody({ kind: LinkKind.REQUEST, streamId: 1, codec: BodyCodec.AVP, totalLength });
  body.feed(head);
  body.feed(data);
  body.feed(encodeTrailer(platform.crc32(data)));
  const frames = [head.length, totalLength - head.length].map((length) => {
    const frame = new Uint8Array(body.frameLength(length));
    body.writeFrame(frame, 0, length);
    return frame;
  });
  const tracker = new PieceTracker(totalLength, 0);
  const reader = new TransferReader(totalLength);
  for (const frame of frames) reader.push(tracker.add(decodeLinkFrame(frame)).bytes);
  reader.verify();
  const [first, last] = frames as [Uint8Array, Uint8Array];
  return new Map([
    ['tensor-first', first],
    ['tensor-last', last],
  ]);
}
