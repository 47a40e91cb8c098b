import {
  encodeClose,
  encodeRecords,
  KEEP_ALIVE,
  RecordReader,
} from '../../packages/protocol/src/base/records.js';
import { encodeSignalFrame, LinkKind } from '../../packages/protocol/src/link/frame.js';

/** Bodies of HTTP that carry frames. */

const KEY = Uint8Array.from({ length: 17 }, (_, i) => (i < 16 ? 0xe0 + i : 0x6e));

/** @param frame is sent first. */
export function httpBodies(frame: Uint8Array): [string, Uint8Array][] {
  const head = Uint8Array.of(1, 0, 0, 0, ...KEY);
  const ack = encodeSignalFrame(LinkKind.ACK, 32);
  const body = encodeRecords([head, frame, ack], encodeClose(1000, 'NORMAL'));
  const read: string[] = [];
  const reader = new RecordReader(1_000, {
    onRecord: (each) => read.push(String(each.length)),
    onClose: (code, reason) => read.push(`${code} ${reason}`),
  });
  reader.push(body);
  reader.push(KEEP_ALIVE);
  if (read.join() !== `21,${frame.length},${ack.length},1000 NORMAL` || !reader.isComplete)
    throw new Error(`an example of a body over HTTP is read as ${read.join()}`);
  return [
    ['http-frames', body],
    ['http-keep-alive', KEEP_ALIVE],
  ];
}
