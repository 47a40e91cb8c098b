import { resolveLimits } from '../../packages/protocol/src/base/limits.js';
import {
  encodeTrailer,
  encodeTransferHead,
  TRAILER_SIZE,
  TransferReader,
} from '../../packages/protocol/src/codec/avp/transfer.js';
import { BodyCodec } from '../../packages/protocol/src/codec/body.js';
import {
  bodyFrameLength,
  decodeLinkFrame,
  LinkKind,
  writeBodyHead,
} from '../../packages/protocol/src/link/frame.js';
import { Assembler } from '../../packages/protocol/src/link/reassembly.js';
import { StreamedBody } from '../../packages/protocol/src/link/streamed-body.js';
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
  const body = new StreamedBody({ kind: LinkKind.REQUEST, streamId: 1, codec: BodyCodec.AVP, totalLength });
  body.feed(head);
  body.feed(data);
  body.feed(encodeTrailer(platform.crc32(data)));
  const frames = [
    [0, head.length],
    [head.length, totalLength],
  ].map(([start = 0, end = 0]) => {
    const frame = new Uint8Array(bodyFrameLength(body, totalLength, start, end));
    const at = writeBodyHead(frame, 0, body, totalLength, start, end);
    body.take(frame, at, end - start);
    return frame;
  });
  const assembler = new Assembler(resolveLimits());
  const reader = new TransferReader(totalLength);
  for (const frame of frames) reader.push(assembler.addPiece(decodeLinkFrame(frame)).bytes);
  reader.verify();
  const [first, last] = frames as [Uint8Array, Uint8Array];
  return new Map([
    ['tensor-first', first],
    ['tensor-last', last],
  ]);
}
