import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteWriter, equalBytes } from '../base/bytes.js';
import { ProtocolError } from '../base/errors.js';
import { FrameKind, frameKind } from '../base/frame-kind.js';
import { BodyCodec, isSized } from '../codec/body.js';
import { errorCode } from '../testing/error-code.js';
import {
  bodyHeadLength,
  decodeBodyHead,
  decodeLinkFrame,
  encodeBodyFrame,
  encodeSignalFrame,
  isBodyKind,
  isCounted,
  LinkFlag,
  LinkKind,
  MAX_STREAM_ID,
  type OutgoingBody,
} from './frame.js';

const MAX_METADATA = 1_000;
const of = (...bytes: number[]) => Uint8Array.from(bytes);

const streamId = fc.oneof(
  fc.nat(MAX_STREAM_ID),
  fc.constantFrom(0, 1, 127, 128, 16_383, 16_384, MAX_STREAM_ID),
);
const outgoing: fc.Arbitrary<OutgoingBody> = fc
  .record<OutgoingBody>({
    kind: fc.constantFrom(LinkKind.MESSAGE, LinkKind.REQUEST, LinkKind.RESPONSE, LinkKind.CHUNK),
    streamId,
    codec: fc.constantFrom(...Object.values(BodyCodec)),
    bytes: fc.uint8Array({ maxLength: 300 }),
    originalLength: fc.oneof(fc.maxSafeNat(), fc.nat(300)),
    secret: fc.boolean(),
    metadata: fc.option(fc.uint8Array({ maxLength: 200 }), { nil: undefined }),
    alias: fc.option(fc.nat(255), { nil: undefined }),
  })
  // Replies are not addressed.
  .map((body) => (body.kind > LinkKind.REQUEST ? { ...body, alias: undefined } : body));
/** A body, and the offsets at which it is cut into frames of at least one byte. */
const cutBody = fc
  .tuple(outgoing, fc.uniqueArray(fc.integer({ min: 1, max: 299 }), { maxLength: 5 }))
  .map(([body, cuts]) => {
    const inside = cuts.filter((at) => at < body.bytes.length).sort((a, b) => a - b);
    return { body, edges: [0, ...inside, body.bytes.length] };
  });
const framesOf = (body: OutgoingBody, edges: readonly number[]) =>
  edges.slice(1).map((end, i) => encodeBodyFrame(body, edges[i] as number, end));

describe('a body', () => {
  it('is restored from its frames with all of its fields', () => {
    fc.assert(
      fc.property(cutBody, ({ body, edges }) => {
        const frames = framesOf(body, edges).map(decodeLinkFrame);
        const pieces = frames.map((frame, i) => {
          const last = i === frames.length - 1;
          expect(frame).toMatchObject({ kind: body.kind, streamId: body.streamId, codec: body.codec });
          expect((frame.flags & LinkFlag.MORE) !== 0).toBe(!last);
          expect((frame.flags & LinkFlag.SECRET) !== 0).toBe(body.secret);
          expect((frame.flags & LinkFlag.META) !== 0).toBe(i === 0 && body.metadata !== undefined);
          if (i > 0) return frame.rest;
          const head = decodeBodyHead(frame, MAX_METADATA);
          expect(head.totalLength).toBe(body.bytes.length);
          expect(head.originalLength).toBe(isSized(body.codec) ? body.originalLength : undefined);
          expect(head.metadata).toEqual(body.metadata);
          expect(head.alias).toBe(body.alias);
          return head.bytes;
        });
        expect(equalBytes(of(...pieces.flatMap((piece) => [...piece])), body.bytes)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it('has a head of the announced length', () => {
    fc.assert(
      fc.property(cutBody, ({ body, edges: [, end = 0] }) => {
        const head = bodyHeadLength(body, body.bytes.length, end === body.bytes.length);
        expect(decodeLinkFrame(encodeBodyFrame(body, 0, end)).rest).toHaveLength(head + end);
      }),
    );
  });

  it('has a header of three bytes below stream 128, four below 16,384, in the documented layout', () => {
    const frame = (id: number, codec: BodyCodec = BodyCodec.PLAIN, metadata?: Uint8Array, end = 2) =>
      encodeBodyFrame(
        {
          kind: LinkKind.CHUNK,
          streamId: id,
          codec,
          bytes: of(7, 8),
          originalLength: 300,
          secret: true,
          metadata,
        },
        0,
        end,
      );
    expect(frame(127)).toEqual(of(0x13, 0x7f, 0x20, 7, 8));
    expect(frame(128)).toEqual(of(0x13, 0x80, 0x01, 0x20, 7, 8));
    expect(frame(16_383)).toHaveLength(6);
    expect(frame(16_384)).toHaveLength(7);
    expect(frame(1, BodyCodec.BROTLI)).toEqual(of(0x13, 1, 0x23, 0xac, 0x02, 7, 8));
    expect(frame(1, BodyCodec.PLAIN, of(0x80))).toEqual(of(0x13, 1, 0xa0, 1, 0x80, 7, 8));
    expect(frame(1, BodyCodec.M2M, of(0x80), 1)).toEqual(of(0x13, 1, 0xb2, 2, 0xac, 0x02, 1, 0x80, 7));
  });

  it('is read in place, without a copy', () => {
    const bytes = encodeBodyFrame(
      {
        kind: LinkKind.MESSAGE,
        streamId: 0,
        codec: 0,
        bytes: of(1, 2),
        originalLength: 2,
        secret: false,
        metadata: of(9),
      },
      0,
      2,
    );
    const head = decodeBodyHead(decodeLinkFrame(bytes), MAX_METADATA);
    expect([head.bytes.buffer, head.metadata?.buffer]).toEqual([bytes.buffer, bytes.buffer]);
  });

  it('whose head is truncated is refused, and throws no other error', () => {
    fc.assert(
      fc.property(cutBody, fc.nat(40), ({ body, edges }, cut) => {
        const [frame] = framesOf(body, edges) as [Uint8Array];
        const headLength = frame.length - (edges[1] ?? 0);
        const length = Math.min(cut, frame.length);
        const read = () => decodeBodyHead(decodeLinkFrame(frame.subarray(0, length)), MAX_METADATA);
        if (length < headLength) expect(errorCode(read)).toBe('truncated');
        else expect(errorCode(read)).toBe('none');
      }),
      { numRuns: 500 },
    );
  });
});

describe('a signal', () => {
  it('is restored with its stream, or with its count up to 2^53 - 1', () => {
    const kinds = fc.constantFrom(LinkKind.END, LinkKind.ERROR, LinkKind.CANCEL);
    const counts = fc.constantFrom(LinkKind.ACK, LinkKind.CREDIT);
    const signal = fc.oneof(fc.tuple(kinds, streamId), fc.tuple(counts, fc.maxSafeNat()));
    fc.assert(
      fc.property(signal, fc.uint8Array({ maxLength: 20 }), ([kind, id], rest) => {
        const frame = encodeSignalFrame(kind, id, rest);
        expect(frameKind(frame)).toBe(FrameKind.LINK);
        const decoded = decodeLinkFrame(frame);
        expect({ ...decoded, rest: [...decoded.rest] }).toEqual({
          kind,
          streamId: id,
          codec: BodyCodec.PLAIN,
          flags: 0,
          rest: [...rest],
        });
        for (let length = 1; length < frame.length - rest.length; length++)
          expect(errorCode(() => decodeLinkFrame(frame.subarray(0, length)))).toBe('truncated');
      }),
    );
  });

  it('takes two bytes if it has no body', () => {
    expect(encodeSignalFrame(LinkKind.END, 5)).toEqual(of(0x14, 5));
  });
});

describe('a link frame is refused', () => {
  it.each([
    ['of an unknown kind', of(0x1a, 0), 'bad_frame'],
    ['in an unknown codec', of(0x10, 0, 0x08), 'bad_frame'],
    ['that is a reply with an address', of(0x12, 1, 0x40), 'bad_frame'],
    ['without a stream', of(0x10), 'truncated'],
    ['without anything', of(), 'truncated'],
    ['without a codec', of(0x10, 0), 'truncated'],
    ['with an overlong stream ID', of(0x14, 0x80, 0x00), 'bad_varint'],
    ['with stream 2^32', of(0x14, 0x80, 0x80, 0x80, 0x80, 0x10), 'bad_varint'],
    ['with an endless stream ID', of(0x14, ...new Array<number>(20).fill(0xff)), 'bad_varint'],
  ])('%s', (_what, bytes, code) => {
    expect(errorCode(() => decodeLinkFrame(bytes))).toBe(code);
  });

  it('if its first frame holds as much as the whole body, or more', () => {
    const first = (total: number) => decodeLinkFrame(of(0x10, 0, LinkFlag.MORE, total, 1, 2));
    expect(decodeBodyHead(first(3), MAX_METADATA)).toMatchObject({ totalLength: 3, bytes: of(1, 2) });
    for (const total of [0, 1, 2])
      expect(errorCode(() => decodeBodyHead(first(total), MAX_METADATA))).toBe('bad_frame');
  });

  it('if its metadata is one byte over the limit, and not at the limit', () => {
    const frame = (length: number) => {
      const writer = new ByteWriter().u8(0x10).u8(0).u8(LinkFlag.META).varint(length);
      return decodeLinkFrame(writer.append(new Uint8Array(length)).finish());
    };
    expect(decodeBodyHead(frame(MAX_METADATA), MAX_METADATA).metadata).toHaveLength(MAX_METADATA);
    expect(errorCode(() => decodeBodyHead(frame(MAX_METADATA + 1), MAX_METADATA))).toBe('metadata_too_large');
    // The limit is checked before the bytes are read.
    const lie = decodeLinkFrame(of(0x10, 0, LinkFlag.META, 0xff, 0xff, 0x7f));
    expect(errorCode(() => decodeBodyHead(lie, MAX_METADATA))).toBe('metadata_too_large');
  });

  it('with a ProtocolError, for any bytes', () => {
    fc.assert(
      fc.property(fc.nat(15), fc.uint8Array({ maxLength: 30 }), (kind, rest) => {
        try {
          decodeBodyHead(decodeLinkFrame(of(0x10 | kind, ...rest)), 20);
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

it('the first four kinds have a body, and all kinds but ack and credit are counted', () => {
  const kinds = Object.values(LinkKind);
  expect(kinds.filter(isBodyKind)).toEqual([0, 1, 2, 3]);
  expect(kinds.filter((kind) => !isCounted(kind))).toEqual([LinkKind.ACK, LinkKind.CREDIT]);
});

it('codecs that expand state their length; token IDs, tensors and bodies in context do not', () => {
  const unsized = Object.entries(BodyCodec).filter(([, codec]) => !isSized(codec));
  expect(unsized.map(([name]) => name)).toEqual(['PLAIN', 'TOKEN_NATIVE', 'CONTEXT', 'AVP']);
});
