import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveLimits } from '../base/limits.js';
import { BodyCodec, type ReceivedBody } from '../codec/body.js';
import { errorCode } from '../testing/error-code.js';
import { decodeLinkFrame, encodeBodyFrame, LinkKind, type OutgoingBody } from './frame.js';
import { Assembler } from './reassembly.js';

const of = (...bytes: number[]) => Uint8Array.from(bytes);
const bodyOf = (change: Partial<OutgoingBody>): OutgoingBody => {
  const bytes = change.bytes ?? of(1, 2, 3, 4);
  return {
    kind: LinkKind.MESSAGE,
    streamId: 0,
    codec: BodyCodec.PLAIN,
    bytes,
    originalLength: bytes.length,
    secret: false,
    metadata: undefined,
    ...change,
  };
};
/** The frames of a body, with `size` bytes each. */
const framesOf = (body: OutgoingBody, size: number) => {
  const frames = [];
  for (let at = 0; at === 0 || at < body.bytes.length; at += size)
    frames.push(decodeLinkFrame(encodeBodyFrame(body, at, Math.min(body.bytes.length, at + size))));
  return frames;
};
const frame = (...bytes: number[]) => decodeLinkFrame(of(...bytes));
const LIMITS = resolveLimits({ maxMessageSize: 100, maxTransferSize: 200, maxMetadataSize: 10 });

describe('assembly', () => {
  const body = fc
    .record({
      kind: fc.constantFrom(LinkKind.REQUEST, LinkKind.RESPONSE, LinkKind.CHUNK),
      codec: fc.constantFrom(...Object.values(BodyCodec)),
      bytes: fc.uint8Array({ maxLength: 60 }),
      originalLength: fc.nat(100),
      secret: fc.boolean(),
      metadata: fc.option(fc.uint8Array({ maxLength: 10 }), { nil: undefined }),
      size: fc.integer({ min: 1, max: 70 }),
    })
    .map(({ size, ...rest }) => ({ size, body: bodyOf(rest) }));

  it('restores the bodies of several streams from fragments in any order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(body, { maxLength: 3 }), { maxLength: 5 }),
        fc.infiniteStream(fc.nat()),
        (streams, turns) => {
          const assembler = new Assembler(LIMITS);
          const waiting = streams.map((bodies, id) =>
            bodies.flatMap(({ body: sent, size }) => framesOf({ ...sent, streamId: id + 1 }, size)),
          );
          const arrived = new Map<number, ReceivedBody[]>();
          for (const turn of turns) {
            const ready = waiting.filter((frames) => frames.length > 0);
            const next = ready[turn % ready.length]?.shift();
            if (next === undefined) break;
            const whole = assembler.add(next);
            expect(assembler.isPending(next.streamId)).toBe(whole === undefined);
            expect(assembler.missing(next.streamId) > 0).toBe(whole === undefined);
            if (whole !== undefined)
              arrived.set(next.streamId, [...(arrived.get(next.streamId) ?? []), whole]);
          }
          for (const [index, bodies] of streams.entries()) {
            const sized = [BodyCodec.M2M, BodyCodec.BROTLI, BodyCodec.TOKEN, BodyCodec.DICTIONARY];
            const expected = bodies.map(({ body: sent }) => ({
              codec: sent.codec,
              bytes: [...sent.bytes],
              originalLength: (sized as number[]).includes(sent.codec) ? sent.originalLength : undefined,
              secret: sent.secret,
              metadata: sent.metadata,
            }));
            const got = (arrived.get(index + 1) ?? []).map(({ charge: _charge, ...rest }) => ({
              ...rest,
              bytes: [...rest.bytes],
            }));
            expect(got).toEqual(expected);
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  it('charges the bytes after the codec byte, and a fixed sum for each body', () => {
    const assembler = new Assembler(LIMITS);
    const parts = framesOf(bodyOf({ bytes: new Uint8Array(10), metadata: of(0x80) }), 4);
    const received = parts.reduce((sum, part) => sum + part.rest.length, 0);
    expect(parts.map((part) => assembler.add(part)).at(-1)?.charge).toBe(received + 16);
    expect(assembler.add(frame(0x10, 0, 0))?.charge).toBe(16);
  });

  it('takes little more memory for fragments of one byte than for their bytes', () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const heap = () => {
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => i);
    const assembler = new Assembler(resolveLimits());
    const before = heap();
    const partAt = (at: number) => decodeLinkFrame(encodeBodyFrame(bodyOf({ bytes }), at, at + 1));
    for (let at = 0; at < bytes.length - 1; at++) assembler.add(partAt(at));
    expect(heap() - before).toBeLessThan(2_000_000);
    expect(assembler.add(partAt(bytes.length - 1))?.bytes).toEqual(bytes);
  });

  it('knows how many bytes an unfinished body lacks, until it is dropped', () => {
    const assembler = new Assembler(LIMITS);
    const [first, second] = framesOf(bodyOf({ bytes: new Uint8Array(10), streamId: 5 }), 4);
    assembler.add(first as never);
    expect([assembler.missing(5), assembler.missing(0), assembler.isPending(0)]).toEqual([6, 0, false]);
    assembler.add(second as never);
    expect(assembler.missing(5)).toBe(2);
    assembler.drop(5);
    expect([assembler.missing(5), assembler.isPending(5)]).toEqual([0, false]);
    // The next frame begins a new body.
    expect(assembler.add(frame(0x13, 5, 0, 9))?.bytes).toEqual(of(9));
  });
});

describe('a body is refused', () => {
  const add = (...frames: ReturnType<typeof frame>[]) => {
    const assembler = new Assembler(LIMITS);
    return errorCode(() => {
      for (const part of frames) assembler.add(part);
    });
  };
  const stating = (codec: BodyCodec, length: number) => bodyOf({ codec, originalLength: length });

  it.each([
    ['message', BodyCodec.PLAIN, 100, 'message_too_large'],
    ['compressed message', BodyCodec.BROTLI, 100, 'message_too_large'],
    ['tensor that is not a request', BodyCodec.AVP, 100, 'message_too_large'],
  ] as const)('at n + 1 bytes and not at n, as a %s', (_what, codec, n, code) => {
    const sized = (length: number) => bodyOf({ codec, bytes: new Uint8Array(length), originalLength: 1 });
    expect(add(...framesOf(sized(n), n))).toBe('none');
    expect(add(...framesOf(sized(n + 1), n + 1))).toBe(code);
    // In fragments, with the first of them.
    expect(add(...framesOf(sized(n), 30))).toBe('none');
    expect(add(framesOf(sized(n + 1), 30)[0] as never)).toBe(code);
  });

  it('if it states to expand to n + 1 bytes, whole or in fragments', () => {
    for (const codec of [BodyCodec.M2M, BodyCodec.BROTLI, BodyCodec.TOKEN, BodyCodec.DICTIONARY]) {
      for (const size of [4, 2]) {
        expect(add(...framesOf(stating(codec, 100), size))).toBe('none');
        expect(add(framesOf(stating(codec, 101), size)[0] as never)).toBe('message_too_large');
        expect(add(framesOf(stating(codec, 2 ** 53 - 1), size)[0] as never)).toBe('message_too_large');
      }
    }
  });

  it('if its metadata is n + 1 bytes', () => {
    expect(add(...framesOf(bodyOf({ metadata: new Uint8Array(10) }), 4))).toBe('none');
    expect(add(...framesOf(bodyOf({ metadata: new Uint8Array(11) }), 4))).toBe('metadata_too_large');
  });

  const [MORE, SECRET, META] = [0x10, 0x20, 0x80];
  const FIRST = frame(0x13, 5, MORE, 4, 1, 2);
  it.each([
    ['another kind', [0x12, 5, 0, 3, 4]],
    ['another codec', [0x13, 5, 1, 3, 4]],
    ['metadata', [0x13, 5, META, 3, 4]],
    ['nothing', [0x13, 5, 0]],
    ['nothing, and more to come', [0x13, 5, MORE]],
    ['less than was stated', [0x13, 5, 0, 3]],
    ['more than was stated', [0x13, 5, 0, 3, 4, 5]],
    ['all that was stated, and more to come', [0x13, 5, MORE, 3, 4]],
  ])('if it is continued with %s', (_what, bytes) => {
    expect(add(FIRST, frame(...bytes))).toBe('bad_frame');
  });

  it('but not if fragments of another stream come in between', () => {
    expect(add(FIRST, frame(0x13, 7, 1, 9), frame(0x10, 0, SECRET, 9), frame(0x13, 5, 0, 3, 4))).toBe('none');
  });
});
