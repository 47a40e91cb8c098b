import { describe, expect, it } from 'vitest';
import { FrameReader } from './frame-reader.js';
import { Payload } from './payload.js';
import { encodeFrame, listingReader, readInPieces, type Seen } from './testing/frames.js';
import { compare, randomOf, randomStream } from './testing/random-streams.js';

const LIMITS = { maxPayload: 1000, maxFragments: 3 };
const BINARY = 2;

function readAll(bytes: Uint8Array, limits = LIMITS): readonly Seen[] {
  const { reader, seen } = listingReader(limits);
  readInPieces(reader, bytes, Infinity);
  return seen;
}

/** Reads a message and returns it as it was handed out. */
function messagesOf(chunks: readonly Buffer[], maxPayload = 2 ** 30): Buffer[] {
  const messages: Buffer[] = [];
  const nothing = () => {};
  const reader = new FrameReader(
    { maxPayload, maxFragments: 0 },
    {
      onMessage: (data) => messages.push(data),
      onPing: nothing,
      onPong: nothing,
      onClose: nothing,
      onViolation: nothing,
    },
  );
  for (const chunk of chunks) reader.read(chunk);
  return messages;
}

describe('FrameReader', () => {
  it('admits a message of the largest size, in one frame and in several, and no byte more', () => {
    const of = (...sizes: number[]) =>
      Buffer.concat(
        sizes.map((size, at) =>
          encodeFrame({
            opcode: at === 0 ? BINARY : 0,
            isFinal: at === sizes.length - 1,
            payload: Buffer.alloc(size),
          }),
        ),
      );
    const read = [['binary', '00'.repeat(1000)]];
    expect(readAll(of(1000))).toEqual(read);
    expect(readAll(of(999, 1))).toEqual(read);
    expect(readAll(of(1001))).toEqual([['violation', 1009]]);
    expect(readAll(of(1000, 1))).toEqual([['violation', 1009]]);
    // The count begins again with each message.
    expect(readAll(Buffer.concat([of(1000), of(500, 500)]))).toEqual([...read, ...read]);
  });

  it('refuses a length by its header, before any of the payload', () => {
    const head = (digits: string) => readAll(Buffer.from(digits, 'hex'));
    expect(head('82fe03e9')).toEqual([['violation', 1009]]);
    expect(head('82ff00000000000003e9')).toEqual([['violation', 1009]]);
    expect(head('82ffffffffffffffffff')).toEqual([['violation', 1009]]);
    expect(head('82ff00200000000003e8')).toEqual([['violation', 1009]]);
    expect(head('82fe03e8')).toEqual([]);
  });

  it('admits as many fragments as the limit says, control frames between them uncounted', () => {
    const part = (opcode: number, isFinal: boolean) => encodeFrame({ opcode, isFinal, payload: 'x' });
    const ping = encodeFrame({ opcode: 9 });
    const three = [part(BINARY, false), ping, part(0, false), ping, part(0, true)];
    expect(readAll(Buffer.concat(three)).at(-1)).toEqual(['binary', '787878']);
    const four = [part(BINARY, false), part(0, false), part(0, false), part(0, true)];
    expect(readAll(Buffer.concat(four))).toEqual([['violation', 1008]]);
    expect(readAll(Buffer.concat([...three, ...three])).length).toBe(6);
  });

  it('hands out a view of the chunk in which a message lies', () => {
    const chunk = encodeFrame({ opcode: BINARY, payload: 'abc' });
    const [message] = messagesOf([chunk]);
    expect(message?.buffer).toBe(chunk.buffer);
    expect(message?.toString()).toBe('abc');
  });

  it('keeps no chunk for a small part of a message', () => {
    const frame = encodeFrame({ opcode: BINARY, payload: Buffer.alloc(20_000, 7) });
    // Not from the pool of Node, in which the message may lie as well.
    const chunks = [frame.subarray(0, 10_000), frame.subarray(10_000)].map((part) =>
      Buffer.from(new Uint8Array(part).buffer),
    );
    const [message] = messagesOf(chunks);
    expect(message).toEqual(Buffer.alloc(20_000, 7));
    for (const { buffer } of chunks) expect(message?.buffer).not.toBe(buffer);
  });

  it('takes memory for what arrived, and not for the length that a header states', () => {
    const payload = new Payload();
    payload.add(Buffer.from('123456789'), 2 ** 31);
    const taken = payload.take();
    expect(taken.toString()).toBe('123456789');
    expect(taken.buffer.byteLength).toBeLessThan(16 * 1024);

    const long = new Payload();
    for (let count = 0; count < 1_000; count++) long.add(Buffer.alloc(1_000), 2 ** 31 - count * 1_000);
    expect(long.take().equals(Buffer.alloc(1_000_000))).toBe(true);
  });

  it('keeps no pool of Node for the beginning of a message', () => {
    const payload = new Payload();
    payload.add(Buffer.from('1'), 2);
    payload.add(Buffer.from('2'), 1);
    expect(payload.take().buffer.byteLength).toBe(2);
  });

  it('joins a message of thousands of fragments of one byte', () => {
    const count = 20_000;
    const frames = Array.from({ length: count }, (_, at) =>
      encodeFrame({ opcode: at === 0 ? BINARY : 0, isFinal: at === count - 1, payload: Uint8Array.of(at) }),
    );
    const [message] = messagesOf(frames);
    expect(message).toEqual(Buffer.from(Uint8Array.from({ length: count }, (_, at) => at)));
  });

  it('stops within a chunk', () => {
    const frame = encodeFrame({ opcode: BINARY, payload: 'x' });
    let count = 0;
    const reader: FrameReader = new FrameReader(LIMITS, {
      onMessage() {
        if (++count === 2) reader.stop();
      },
      onPing() {},
      onPong() {},
      onClose() {},
      onViolation() {},
    });
    reader.read(Buffer.concat([frame, frame, frame]));
    reader.read(Buffer.concat([frame]));
    expect(count).toBe(2);
    expect(reader.isOver).toBe(true);
  });
});

/** `WIRE_STREAMS=10000000 WIRE_SEED=5 npx vitest run --project 'unit*' wire/frame-reader` reads others, and more of them. */
const STREAMS = Number(process.env['WIRE_STREAMS'] ?? '2000');
const SEED = Number(process.env['WIRE_SEED'] ?? '1');

describe('beside the library ws', () => {
  it(`reads ${STREAMS} random streams alike`, { timeout: 300_000 + STREAMS }, async () => {
    const random = randomOf(SEED);
    const kinds = new Map<string, number>();
    for (let count = 0; count < STREAMS; count++) {
      const stream = randomStream(random);
      const { difference, last } = await compare(stream);
      expect(difference, `stream ${count} of seed ${SEED}`).toBeUndefined();
      kinds.set(last, (kinds.get(last) ?? 0) + 1);
    }
    // The streams end in every way in which a stream can end.
    for (const kind of ['text', 'binary', 'ping', 'pong', 'close', '1002', '1007', '1008', '1009']) {
      expect(kinds.get(kind) ?? 0, kind).toBeGreaterThan(STREAMS / 1000);
    }
  });
});
