import { decodeMap, encodeMap } from '../../packages/protocol/src/control/maps.js';
import { encodeBodyFrame, encodeSignalFrame, LinkKind } from '../../packages/protocol/src/link/frame.js';
import { decodeRecord, encodeRecord } from '../../packages/server/src/replies/record.js';

/** The frames with which a client follows a kept reply, and a recorded part. */
export function repliesFrames(): [string, Uint8Array][] {
  const follow = encodeMap({ follow: { name: 'chat-42', after: 7 } });
  const kept = encodeMap({ '@reply': { id: 'reply_9mKq2XvBz7Lw4TnRc8YdHs', after: 7, held: [0xf0, 0x9f] } });
  if (JSON.stringify(decodeMap(follow, 8, 'an example')) !== '{"follow":{"name":"chat-42","after":7}}')
    throw new Error('an example of following cannot be read');
  const record = encodeRecord(
    { codec: 1, bytes: Uint8Array.of(0xb2, 0x4d), originalLength: 5, secret: false, metadata: undefined },
    undefined,
  );
  if (decodeRecord(record).bytes.length !== 2) throw new Error('an example of a record cannot be read');
  return [
    ['replies-alias', encodeSignalFrame(LinkKind.ALIAS, 0, new TextEncoder().encode('@replies'))],
    ['replies-follow', frameOf(LinkKind.REQUEST, follow, 0)],
    ['replies-kept', frameOf(LinkKind.CHUNK, kept, undefined)],
    ['replies-record', record],
  ];
}

/** An empty body on stream 5 with metadata. */
function frameOf(
  kind: typeof LinkKind.REQUEST | typeof LinkKind.CHUNK,
  metadata: Uint8Array,
  alias: number | undefined,
) {
  const bytes = new Uint8Array(0);
  return encodeBodyFrame(
    { kind, streamId: 5, codec: 0, bytes, originalLength: 0, secret: false, metadata, alias },
    0,
    0,
  );
}
