import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveLimits } from '../base/limits.js';
import { MAX_FRAGMENT_SIZE } from './body-writer.js';
import { BODY_CHARGE, SendCredit } from './credit.js';
import { decodeLinkFrame, encodeSignalFrame, LinkKind, type OutgoingBody } from './frame.js';
import { Outbox } from './outbox.js';
import { Assembler } from './reassembly.js';

const bodyOf = (streamId: number, bytes: Uint8Array): OutgoingBody => ({
  kind: LinkKind.CHUNK,
  streamId,
  codec: 0,
  bytes,
  originalLength: bytes.length,
  secret: false,
  metadata: undefined,
});
const sized = (streamId: number, size: number) => bodyOf(streamId, new Uint8Array(size));
const drain = (outbox: Outbox) => {
  const frames = [];
  for (let frame = outbox.next(0); frame !== undefined; frame = outbox.next(0)) frames.push(frame);
  return frames;
};
/** The stream IDs of link frames, in the order in which they were written, and all other frames. */
const turns = (frames: readonly (Uint8Array | string)[]) =>
  frames.map((frame) => (typeof frame === 'string' ? frame : decodeLinkFrame(frame).streamId));
const END = (streamId: number) => encodeSignalFrame(LinkKind.END, streamId);
const ACK = encodeSignalFrame(LinkKind.ACK, 1);
const PING = '{"type":"PING"}';

describe('an outbox', () => {
  it('is idle and empty at first, and again when everything is written', () => {
    const outbox = new Outbox();
    expect([outbox.isIdle, outbox.next(0), outbox.queuedBytes]).toEqual([true, undefined, 0]);
    outbox.pushBody(sized(1, 5));
    outbox.pushAfter(1, END(1));
    expect([outbox.isIdle, outbox.queuedBytes, outbox.has(1), outbox.has(3)]).toEqual([
      false,
      7,
      true,
      false,
    ]);
    drain(outbox);
    expect([outbox.isIdle, outbox.next(0), outbox.queuedBytes, outbox.has(1)]).toEqual([
      true,
      undefined,
      0,
      false,
    ]);
  });

  it('writes control frames first and in order, even between the fragments of a body', () => {
    const outbox = new Outbox();
    outbox.pushBody(sized(1, 2 * MAX_FRAGMENT_SIZE));
    outbox.pushControl('a');
    outbox.pushSignal(END(9));
    outbox.pushControl('b');
    const first = [outbox.next(0), outbox.next(0), outbox.next(0), outbox.next(0)] as string[];
    expect(turns(first)).toEqual(['a', 9, 'b', 1]);
    outbox.pushControl('c');
    expect(turns(drain(outbox))).toEqual(['c', 1]);
  });

  it('counts link frames when they are written, and does not count control frames', () => {
    const outbox = new Outbox();
    outbox.pushControl('PING');
    outbox.pushSignal(END(1));
    outbox.pushBody(sized(1, MAX_FRAGMENT_SIZE + 1));
    outbox.pushAfter(1, END(1));
    expect(outbox.framesWritten).toBe(0);
    const counts = drain(outbox).map(() => outbox.framesWritten);
    expect(counts).toHaveLength(5);
    expect(outbox.framesWritten).toBe(4);
  });

  it.each([
    [0, 1],
    [1, 1],
    [MAX_FRAGMENT_SIZE, 1],
    [MAX_FRAGMENT_SIZE + 1, 2],
    [3 * MAX_FRAGMENT_SIZE, 3],
  ])('writes a body of %i bytes in %i frames', (size, frames) => {
    const outbox = new Outbox();
    outbox.pushBody(sized(1, size));
    expect(drain(outbox)).toHaveLength(frames);
  });

  it('lets streams take turns, so that none waits for more than one frame of each other', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 2, maxLength: 6 }), (lengths) => {
        const outbox = new Outbox();
        for (const [id, frames] of lengths.entries()) outbox.pushBody(sized(id, frames * MAX_FRAGMENT_SIZE));
        const expected = [];
        for (let round = 0; round < Math.max(...lengths); round++)
          for (const [id, frames] of lengths.entries()) if (round < frames) expected.push(id);
        expect(turns(drain(outbox))).toEqual(expected);
      }),
    );
  });

  it('puts a new stream at the end of the round', () => {
    const outbox = new Outbox();
    for (const id of [1, 3]) outbox.pushBody(sized(id, 3 * MAX_FRAGMENT_SIZE));
    outbox.next(0);
    outbox.pushBody(sized(5, 1));
    expect(turns(drain(outbox))).toEqual([3, 1, 5, 3, 1, 3]);
  });

  it('keeps the order within each stream, and every byte', () => {
    const bodies = fc.array(
      fc.record({
        streamId: fc.nat(4),
        bytes: fc.uint8Array({ maxLength: 20 }),
        repeat: fc.constantFrom(1, 9_000),
      }),
      { maxLength: 12 },
    );
    fc.assert(
      fc.property(bodies, fc.array(fc.nat(3)), (sent, pauses) => {
        const outbox = new Outbox();
        const assembler = new Assembler(resolveLimits());
        const arrived: [number, number, number][] = [];
        const sum = (bytes: Uint8Array) => bytes.reduce((hash, byte) => (hash * 31 + byte) >>> 0, 7);
        const expected: [number, number, number][] = [];
        const read = () => {
          const frame = outbox.next(0);
          if (frame === undefined) return false;
          const whole = assembler.add(decodeLinkFrame(frame as Uint8Array));
          const { streamId } = decodeLinkFrame(frame as Uint8Array);
          if (whole !== undefined) arrived.push([streamId, whole.bytes.length, sum(whole.bytes)]);
          return true;
        };
        for (const [i, { streamId, bytes, repeat }] of sent.entries()) {
          const long = Uint8Array.from(
            { length: bytes.length * repeat },
            (_, at) => bytes[at % bytes.length] as number,
          );
          outbox.pushBody(bodyOf(streamId, long));
          expected.push([streamId, long.length, sum(long)]);
          for (let times = pauses[i] ?? 0; times > 0; times--) read();
        }
        while (read());
        for (let id = 0; id <= 4; id++)
          expect(arrived.filter(([stream]) => stream === id)).toEqual(
            expected.filter(([stream]) => stream === id),
          );
      }),
      { numRuns: 60 },
    );
  });

  it('writes an end after the bodies of its stream', () => {
    const outbox = new Outbox();
    outbox.pushBody(sized(1, 2 * MAX_FRAGMENT_SIZE));
    outbox.pushAfter(1, END(1));
    outbox.pushBody(sized(3, 1));
    const kinds = drain(outbox).map((frame) => {
      const { streamId, kind } = decodeLinkFrame(frame as Uint8Array);
      return [streamId, kind];
    });
    expect(kinds).toEqual([
      [1, LinkKind.CHUNK],
      [3, LinkKind.CHUNK],
      [1, LinkKind.CHUNK],
      [1, LinkKind.END],
    ]);
  });

  it('always knows how many bytes are queued, in total and on each stream', () => {
    const pushes = fc.array(
      fc.record({ streamId: fc.nat(3), size: fc.nat(200_000), reads: fc.nat(3), drop: fc.nat(12) }),
      { maxLength: 20 },
    );
    fc.assert(
      fc.property(pushes, (steps) => {
        const outbox = new Outbox();
        const waiting = [0, 0, 0, 0];
        for (const { streamId, size, reads, drop } of steps) {
          outbox.pushBody(sized(streamId, size));
          (waiting[streamId] as number) += size;
          for (let i = 0; i < reads; i++) {
            const frame = outbox.next(0) as Uint8Array | undefined;
            if (frame === undefined) break;
            const { streamId: id, flags, rest } = decodeLinkFrame(frame);
            // The first of several fragments states the total length.
            const before = waiting[id] as number;
            waiting[id] = outbox.queuedOn(id);
            expect(before - (waiting[id] as number)).toBeGreaterThanOrEqual(0);
            expect(rest.length - (before - (waiting[id] as number))).toBeLessThanOrEqual(flags === 0 ? 0 : 4);
          }
          if (drop < 4) {
            outbox.drop(drop);
            waiting[drop] = 0;
          }
          expect(waiting.map((_bytes, id) => outbox.queuedOn(id))).toEqual(waiting);
          expect(outbox.queuedBytes).toBe(waiting.reduce((sum, bytes) => sum + bytes));
        }
        outbox.clear();
        expect([outbox.queuedBytes, outbox.next(0), outbox.isIdle]).toEqual([0, undefined, true]);
      }),
      { numRuns: 100 },
    );
  });

  it('drops what is queued on a stream, wherever it is in the round, and nothing of another stream', () => {
    const outbox = new Outbox();
    for (const id of [1, 3, 5]) outbox.pushBody(sized(id, 3 * MAX_FRAGMENT_SIZE));
    outbox.next(0);
    expect(outbox.drop(3)).toBe(false);
    expect(outbox.drop(1)).toBe(true);
    expect(outbox.drop(7)).toBe(true);
    expect(turns(drain(outbox))).toEqual([5, 5, 5]);
    outbox.pushBody(sized(3, 1));
    expect(turns(drain(outbox))).toEqual([3]);
  });

  it('clears bodies but no control frames', () => {
    const outbox = new Outbox();
    outbox.pushBody(sized(1, 1));
    outbox.pushControl('CLOSE');
    outbox.clear();
    expect(drain(outbox)).toEqual(['CLOSE']);
  });

  it('reports that a stream is drained when its last frame is written', () => {
    const outbox = new Outbox();
    const drained: number[] = [];
    outbox.attach({ listener: { handleDrained: (streamId) => drained.push(streamId) } });
    outbox.pushBody(sized(1, 1));
    outbox.pushBody(sized(3, MAX_FRAGMENT_SIZE + 1));
    outbox.pushAfter(1, END(1));
    const seen = [];
    while (outbox.next(0) !== undefined) seen.push([...drained]);
    expect(seen).toEqual([[], [], [1], [1, 3]]);
  });

  it('asks for an acknowledgement while a new counted frame waits, which it then follows', () => {
    const outbox = new Outbox();
    outbox.retain = true;
    let asked = 0;
    outbox.attach({
      acknowledgement: {
        handleWriting() {
          if (asked++ === 0) outbox.pushUncounted(ACK);
        },
      },
    });
    outbox.pushControl(PING);
    expect([outbox.next(0), outbox.next(0), asked]).toEqual([PING, undefined, 0]);
    outbox.pushBody(sized(1, 1));
    expect([outbox.next(0), asked]).toEqual([ACK, 1]);
    const frame = (outbox.next(0) as Uint8Array).slice();
    outbox.pause();
    outbox.replayFrom(0);
    expect([outbox.next(0), outbox.next(0), asked]).toEqual([frame, undefined, 2]);
  });

  it('lists the bodies that are not completely written', () => {
    const outbox = new Outbox();
    const [started, waiting, other] = [sized(1, 2 * MAX_FRAGMENT_SIZE), sized(1, 1), sized(3, 1)];
    outbox.pushBody(started);
    outbox.pushBody(waiting);
    outbox.next(0);
    outbox.pushBody(other);
    outbox.pushAfter(3, END(3));
    expect(outbox.unwritten()).toEqual([started, waiting, other]);
    outbox.next(0);
    outbox.next(0);
    expect(outbox.unwritten()).toEqual([waiting]);
  });

  it('releases the written bodies of a stream that never runs empty', async () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const outbox = new Outbox();
    const bodies: WeakRef<object>[] = [];
    const push = () => {
      const body = sized(0, 1);
      bodies.push(new WeakRef(body));
      outbox.pushBody(body);
    };
    push();
    for (let i = 0; i < 2_000; i++) {
      push();
      outbox.next(0);
    }
    // A WeakRef keeps its target alive until the event-loop tick that created it is over.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    expect(outbox.has(0)).toBe(true);
    expect(bodies.filter((body) => body.deref() !== undefined).length).toBeLessThan(200);
  });
});

describe('an outbox with credit', () => {
  const withCredit = (messages: number, stream: number) => {
    const outbox = new Outbox();
    const credit = new SendCredit({ messages, stream });
    outbox.attach({ credit });
    const raise = (streamId: number, limit: number) => {
      if (credit.raise(streamId, limit)) outbox.unblock(streamId);
    };
    return { outbox, credit, raise };
  };

  it('spends the bytes of each frame and a fixed charge for each body, and not one more', () => {
    const { outbox, credit, raise } = withCredit(0, 100);
    outbox.pushBody(sized(1, 100 - BODY_CHARGE));
    outbox.pushBody(sized(1, 0));
    expect(turns(drain(outbox))).toEqual([1]);
    expect([credit.available(1), outbox.blockedStreams, outbox.isIdle]).toEqual([0, 1, true]);
    raise(1, 100 + BODY_CHARGE - 1);
    expect([outbox.next(0), outbox.blockedStreams]).toEqual([undefined, 1]);
    raise(1, 100 + BODY_CHARGE);
    expect([turns(drain(outbox)), outbox.blockedStreams]).toEqual([[1], 0]);
  });

  it('cuts a body to the available credit and continues there', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 300 }),
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 30 }),
        (size, grants) => {
          const bytes = Uint8Array.from({ length: size }, (_, i) => i);
          const { outbox, credit, raise } = withCredit(0, 0);
          const assembler = new Assembler(resolveLimits());
          outbox.pushBody(bodyOf(1, bytes));
          let limit = 0;
          let spent = 0;
          let whole: Uint8Array | undefined;
          for (const grant of [...grants, 1_000]) {
            limit += grant;
            raise(1, limit);
            for (const frame of drain(outbox)) {
              const decoded = decodeLinkFrame(frame as Uint8Array);
              spent += decoded.rest.length + (assembler.isPending(1) ? 0 : BODY_CHARGE);
              whole = assembler.add(decoded)?.bytes;
              expect(spent).toBeLessThanOrEqual(limit);
              expect(credit.available(1)).toBe(limit - spent);
            }
          }
          expect(whole).toEqual(bytes);
        },
      ),
    );
  });

  it('skips a stream without credit and does not hold up the others', () => {
    const { outbox, raise } = withCredit(0, 50);
    outbox.pushBody(sized(1, 100));
    for (const id of [0, 3, 5]) outbox.pushBody(sized(id, 10));
    expect(turns(drain(outbox))).toEqual([1, 3, 5]);
    expect([outbox.blockedStreams, outbox.queuedOn(0)]).toEqual([2, 10]);
    // A frame that needs no credit keeps its place after a body that does.
    outbox.pushAfter(1, END(1));
    expect(outbox.next(0)).toBeUndefined();
    raise(1, 1_000);
    expect(turns(drain(outbox))).toEqual([1, 1]);
  });

  it('forgets a blocked stream that is dropped', () => {
    const { outbox } = withCredit(0, 0);
    outbox.pushBody(sized(1, 10));
    expect(outbox.next(0)).toBeUndefined();
    outbox.drop(1);
    expect([outbox.blockedStreams, outbox.queuedBytes]).toEqual([0, 0]);
    outbox.unblock(1);
    outbox.unblock(99);
    expect([outbox.blockedStreams, outbox.next(0)]).toEqual([0, undefined]);
  });

  it('writes a signal without credit', () => {
    const { outbox } = withCredit(0, 0);
    outbox.pushAfter(1, END(1));
    expect(turns(drain(outbox))).toEqual([1]);
  });
});

describe('an outbox that is replayed', () => {
  it('writes the same bytes in the same order, then continues', () => {
    const sizes = fc.array(fc.nat(150_000), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(sizes, fc.nat(10), fc.nat(10), (bodies, writeFirst, confirmFirst) => {
        const outbox = new Outbox();
        outbox.retain = true;
        for (const [i, size] of bodies.entries()) outbox.pushBody(sized(i % 3, size));
        const written: Uint8Array[] = [];
        for (let i = 0; i < writeFirst; i++) {
          const frame = outbox.next(0);
          if (frame !== undefined) written.push(Uint8Array.from(frame as Uint8Array));
        }
        const confirmed = Math.min(confirmFirst, written.length);
        const count = outbox.framesWritten;
        outbox.pause();
        expect([outbox.next(0), outbox.isIdle]).toEqual([undefined, true]);
        outbox.replayFrom(confirmed);
        for (const frame of written.slice(confirmed)) {
          expect(Buffer.compare(frame, outbox.next(0) as Uint8Array)).toBe(0);
        }
        // Replayed frames are not counted again.
        expect(outbox.framesWritten).toBe(count);
        drain(outbox);
        expect([outbox.isIdle, outbox.queuedBytes]).toEqual([true, 0]);
      }),
      { numRuns: 60 },
    );
  });

  it('forgets confirmed frames, even if some are confirmed twice or out of order', () => {
    const outbox = new Outbox();
    outbox.retain = true;
    for (let i = 0; i < 4; i++) outbox.pushBody(sized(0, i));
    const frames = drain(outbox);
    outbox.confirm(2);
    outbox.confirm(1);
    outbox.confirm(2);
    expect([...outbox.unconfirmed()]).toEqual(frames.slice(2));
    outbox.confirm(4);
    expect([...outbox.unconfirmed()]).toEqual([]);
  });

  it('writes only new control frames while it is paused', () => {
    const outbox = new Outbox();
    outbox.retain = true;
    outbox.pushControl('PING of the old connection');
    outbox.pushSignal(END(9));
    outbox.pushBody(sized(1, 1));
    outbox.pause();
    outbox.pushControl('HELLO');
    expect(drain(outbox)).toEqual(['HELLO']);
    outbox.replayFrom(0);
    expect(turns(drain(outbox))).toEqual([9, 1]);
  });

  it('writes a new signal after the replayed frames', () => {
    const outbox = new Outbox();
    outbox.retain = true;
    for (const id of [1, 3]) outbox.pushBody(sized(id, 1));
    drain(outbox);
    outbox.pause();
    outbox.pushSignal(END(5));
    outbox.replayFrom(0);
    outbox.pushControl('ACK');
    expect(turns(drain(outbox))).toEqual(['ACK', 1, 3, 5]);
  });

  it('keeps no written frames unless told to', () => {
    const outbox = new Outbox();
    outbox.pushBody(sized(1, 1));
    drain(outbox);
    expect([...outbox.unconfirmed()]).toEqual([]);
  });
});

describe('a peer that acknowledges nothing', () => {
  it('gets no more frames than may be kept, until it does', () => {
    const outbox = new Outbox();
    outbox.retain = true;
    outbox.attach({ maxRetained: 10_000 });
    for (let i = 0; i < 100; i++) outbox.pushBody(sized(1, 900));
    const written = drain(outbox).length;
    expect(written).toBeGreaterThanOrEqual(9);
    expect(written).toBeLessThanOrEqual(11);
    // Asking again is pointless, but control frames are written.
    expect(outbox.isIdle).toBe(true);
    outbox.pushControl('PING');
    expect(drain(outbox)).toEqual(['PING']);
    outbox.confirm(written - 1);
    expect(drain(outbox).length).toBe(written - 1);
  });
});
