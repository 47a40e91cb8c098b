import { BodyCodec } from '../../packages/protocol/src/codec/body.js';
import { ContextDecoder } from '../../packages/protocol/src/codec/context/decoder.js';
import { ContextEncoder } from '../../packages/protocol/src/codec/context/encoder.js';
import { encodeBodyFrame, encodeSignalFrame, LinkKind } from '../../packages/protocol/src/link/frame.js';

/** Frames of a session with context coding, written by its encoder and verified by its decoder. */
export function contextFrames(): ReadonlyMap<string, Uint8Array> {
  const parameters = { maxBytes: 1024 * 1024, maxMessages: 8 };
  const encoder = new ContextEncoder(parameters);
  const decoder = new ContextDecoder(parameters, 1024 * 1024);
  const frame = (kind: typeof LinkKind.REQUEST | typeof LinkKind.CHUNK, streamId: number, text: string) => {
    const content = new TextEncoder().encode(text);
    const isPart = kind === LinkKind.CHUNK;
    const offer = encoder.code(content, encoder.match(content, streamId, isPart), isPart);
    encoder.begin(streamId, offer);
    encoder.complete(streamId);
    decoder.begin(streamId, offer.bytes);
    if (Buffer.compare(decoder.complete(streamId, offer.bytes, isPart), content) !== 0) {
      throw new Error(`an example does not decode to ${text}`);
    }
    return encodeBodyFrame(
      {
        kind,
        streamId,
        codec: BodyCodec.CONTEXT,
        bytes: offer.bytes,
        originalLength: content.length,
        secret: false,
        metadata: undefined,
      },
      0,
      offer.bytes.length,
    );
  };
  const request = (...turns: string[]) => `{"model":"m","messages":[${turns.map((text) => `"${text}"`)}]}`;
  const chunk = (text: string) => `{"choices":[{"index":0,"delta":{"content":"${text}"}}]}`;

  const first = frame(LinkKind.REQUEST, 1, request('Why is the sky blue?'));
  const next = frame(LinkKind.REQUEST, 3, request('Why is the sky blue?', 'Rayleigh.', 'And red?'));
  const part = frame(LinkKind.CHUNK, 3, chunk('Dust'));
  const nextPart = frame(LinkKind.CHUNK, 3, chunk(' and'));
  const checksum = encoder.end(3);
  decoder.end(3, checksum);
  return new Map([
    ['context-first', first],
    ['context-next', next],
    ['context-part', part],
    ['context-next-part', nextPart],
    ['context-end', encodeSignalFrame(LinkKind.END, 3, checksum)],
  ]);
}
