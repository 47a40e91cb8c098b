import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { concatBytes } from '../base/bytes.js';
import { BodyCodec } from '../codec/body.js';
import { errorCode } from '../testing/error-code.js';
import { MAX_PIECE_SIZE } from './body-writer.js';
import { BODY_CHARGE, SendCredit } from './credit.js';
import { decodeLinkFrame, encodeSignalFrame, LinkFlag, LinkKind } from './frame.js';
import { Outbox } from './outbox.js';
import { Assembler, type BodyPiece, TRANSFER_OVERHEAD } from './reassembly.js';
import { StreamedBody } from './streamed-body.js';

const bodyOf = (streamId: number, totalLength: number, first = new Uint8Array(0)) => {
  const { REQUEST: kind } = LinkKind;
  const body = new StreamedBody({ kind, streamId, codec: BodyCodec.AVP, totalLength });
  body.feed(first);
  return body;
};
const numbered = (length: number) => Uint8Array.from({ length }, (_, i) => (i * 31) >> 3);
const read = (outbox: Outbox): Uint8Array[] => {
  const frames = [];
  for (let frame = outbox.next(0); frame !== undefined; frame = outbox.next(0))
    frames.push((frame as Uint8Array).slice());
  return frames;
};
const END = (streamId: number) => encodeSignalFrame(LinkKind.END, streamId);

/** @param maxTransferSize bytes of a tensor, without its overhead. */
const createAssembler = (maxTransferSize: number) =>
  new Assembler({ maxTransferSize, maxMessageSize: 0, maxMetadataSize: 100 });
const received = (assembler: Assembler, frames: readonly Uint8Array[]): BodyPiece[] =>
  frames.map((frame) => assembler.addPiece(decodeLinkFrame(frame)));

describe('a streamed body', () => {
  it('arrives as it was fed, for any sizes of chunks and any credit', () => {
    const some = fc.integer({ min: 1, max: 40 });
    const feeds = fc.tuple(some, some, some, some);
    const grants = fc.array(fc.nat(60), { maxLength: 12 });
    fc.assert(
      fc.property(fc.nat(3), feeds, grants, (bit, sizes, credits) => {
        const streamId = 1 + bit * 100;
        const total = sizes.reduce((sum, size) => sum + size);
        const bytes = numbered(total);
        const outbox = new Outbox();
        const credit = new SendCredit({ messages: 0, stream: credits.length === 0 ? Infinity : 0 });
        outbox.attach({ credit });
        const assembler = createAssembler(total);
        const pieces: Uint8Array[] = [];
        let limit = 0;
        let charged = 0;
        const step = (grant: number) => {
          limit += grant;
          if (credit.raise(streamId, limit)) outbox.unblock(streamId);
          for (const piece of received(assembler, read(outbox))) {
            expect(piece).toMatchObject({ offset: pieces.reduce((sum, { length }) => sum + length, 0) });
            expect(piece.totalLength).toBe(total);
            pieces.push(piece.bytes);
            charged += piece.charge;
          }
          if (credits.length > 0) expect(charged).toBeLessThanOrEqual(limit);
        };
        let at = sizes[0];
        outbox.pushBody(bodyOf(streamId, total, bytes.subarray(0, at)));
        for (const [i, size] of sizes.entries()) {
          if (i > 0) {
            outbox.feed(streamId, bytes.subarray(at, at + size));
            at += size;
          }
          step(credits[i] ?? 0);
        }
        step(total + BODY_CHARGE + 16);
        expect(concatBytes(pieces)).toEqual(bytes);
        expect([outbox.isIdle, outbox.hasBodies, outbox.blockedStreams]).toEqual([true, false, 0]);
        expect([outbox.has(streamId), outbox.queuedBytes, assembler.isPending(streamId)]).toEqual([
          false,
          0,
          false,
        ]);
      }),
    );
  });

  it('is one frame without MORE if all of it is there', () => {
    const outbox = new Outbox();
    outbox.pushBody(bodyOf(1, 3, Uint8Array.of(1, 2, 3)));
    const [frame, ...others] = read(outbox);
    expect([...(frame ?? [])]).toEqual([0x11, 1, BodyCodec.AVP, 1, 2, 3]);
    expect(others).toEqual([]);
  });

  it.each([
    [MAX_PIECE_SIZE, 1],
    [MAX_PIECE_SIZE + 1, 2],
  ])('of %i waiting bytes takes %i frames', (size, frames) => {
    const outbox = new Outbox();
    outbox.pushBody(bodyOf(1, size, new Uint8Array(size)));
    expect(read(outbox)).toHaveLength(frames);
  });

  it('does not hold up other streams while its source has no bytes', () => {
    const outbox = new Outbox();
    outbox.pushBody(bodyOf(1, 10, Uint8Array.of(1)));
    expect(read(outbox)).toHaveLength(1);
    expect([outbox.hasBodies, outbox.isIdle, outbox.has(1), outbox.next(0)]).toEqual([
      true,
      true,
      true,
      undefined,
    ]);
    outbox.pushAfter(3, END(3));
    expect(read(outbox)).toEqual([END(3)]);
    outbox.feed(1, new Uint8Array(9));
    expect(outbox.isIdle).toBe(false);
    expect(decodeLinkFrame(read(outbox)[0] as Uint8Array)).toMatchObject({ streamId: 1, flags: 0 });
  });

  it('is copied when it is written, so that its memory can be reused', () => {
    const outbox = new Outbox();
    outbox.retain = true;
    const memory = Uint8Array.of(7, 7);
    outbox.pushBody(bodyOf(1, 4, memory));
    const [first] = read(outbox);
    memory.fill(8);
    outbox.feed(1, memory);
    const [second] = read(outbox);
    outbox.pause();
    outbox.replayFrom(0);
    expect(read(outbox)).toEqual([first, second]);
    expect([first?.slice(-2), second?.slice(-2)]).toEqual([Uint8Array.of(7, 7), Uint8Array.of(8, 8)]);
  });

  it.each(['awaiting its source', 'blocked', 'ready'])(
    'is forgotten when it is dropped while %s',
    (state) => {
      const outbox = new Outbox();
      const credit = new SendCredit({ messages: Infinity, stream: state === 'blocked' ? 0 : Infinity });
      outbox.attach({ credit });
      outbox.pushBody(bodyOf(1, 10, Uint8Array.of(1, 2)));
      if (state !== 'ready') read(outbox);
      expect(outbox.drop(1)).toBe(state === 'awaiting its source');
      expect([outbox.hasBodies, outbox.blockedStreams, outbox.queuedBytes]).toEqual([false, 0, 0]);
      outbox.feed(1, new Uint8Array(8));
      credit.raise(1, 100);
      outbox.unblock(1);
      expect([outbox.isIdle, outbox.has(1), read(outbox)]).toEqual([true, false, []]);
    },
  );

  it('counts as not sent until it is completely written', () => {
    const outbox = new Outbox();
    outbox.pushBody(bodyOf(1, 2, Uint8Array.of(1)));
    read(outbox);
    expect(outbox.unwritten()).toMatchObject([{ streamId: 1, kind: LinkKind.REQUEST }]);
    outbox.feed(1, Uint8Array.of(2));
    read(outbox);
    expect(outbox.unwritten()).toEqual([]);
  });
});

describe('the pieces of a body', () => {
  const frames = (totalLength: number, ...sizes: number[]) => {
    const outbox = new Outbox();
    outbox.pushBody(bodyOf(1, totalLength, new Uint8Array(sizes[0] ?? 0)));
    const all = read(outbox);
    for (const size of sizes.slice(1)) {
      outbox.feed(1, new Uint8Array(size));
      all.push(...read(outbox));
    }
    return all;
  };
  const add = (maxTransferSize: number, ...all: Uint8Array[]) =>
    errorCode(() => received(createAssembler(maxTransferSize), all));
  const changed = (frame: Uint8Array | undefined, codec: number) => {
    const copy = frame?.slice() ?? new Uint8Array(0);
    copy[2] = codec;
    return copy;
  };

  it('are refused at n + 1 bytes and not at n, by the first of them', () => {
    const n = TRANSFER_OVERHEAD + 10;
    expect(add(10, ...frames(n, 4, n - 4))).toBe('none');
    expect(add(9, ...frames(n, 4).slice(0, 1))).toBe('transfer_too_large');
    expect(add(10, ...frames(n, n))).toBe('none');
    expect(add(9, ...frames(n, n))).toBe('transfer_too_large');
  });

  it('hold no fewer and no more bytes than the first of them states', () => {
    const [first, middle, last] = frames(10, 4, 4, 2) as [Uint8Array, Uint8Array, Uint8Array];
    expect(add(10, first, middle, last)).toBe('none');
    expect(add(10, first, middle, last.subarray(0, -1))).toBe('bad_frame');
    expect(add(10, first, middle, Uint8Array.of(...last, 0))).toBe('bad_frame');
    expect(add(10, first, changed(middle, BodyCodec.AVP))).toBe('bad_frame');
    expect(add(10, first, middle, changed(last, BodyCodec.AVP | LinkFlag.MORE))).toBe('bad_frame');
    expect(add(10, first, middle.subarray(0, 3))).toBe('bad_frame');
  });

  it('do not change the codec or the flags of their body', () => {
    const [first, second] = frames(10, 4, 4) as [Uint8Array, Uint8Array];
    expect(add(10, first, changed(second, BodyCodec.PLAIN | LinkFlag.MORE))).toBe('bad_frame');
    expect(add(10, first, changed(second, BodyCodec.AVP | LinkFlag.MORE | LinkFlag.META))).toBe('bad_frame');
  });

  it('are refused if the first states 2^62 bytes', () => {
    const frame = Uint8Array.of(0x11, 1, BodyCodec.AVP | LinkFlag.MORE, ...Array(8).fill(0xff), 0x40, 65);
    expect(add(Infinity, frame)).toBe('bad_varint');
  });
});
