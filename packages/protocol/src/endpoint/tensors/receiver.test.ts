import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { platform } from '#platform';
import { concatBytes } from '../../base/bytes.js';
import { type Limits, resolveLimits } from '../../base/limits.js';
import { MemoryBudget } from '../../base/memory-budget.js';
import { type AvpInput, encodeAvp } from '../../codec/avp/frame.js';
import { encodeTrailer, encodeTransferHead } from '../../codec/avp/transfer.js';
import type { TensorMessage } from './message.js';
import { TensorReceiver, type TransferMode } from './receiver.js';
import type { AssembledTensor, StreamedTensor } from './tensor.js';

beforeAll(() => platform.loadZstd());

const KIB = 1024;
const bytesOf = (size: number, seed = 1) => Uint8Array.from({ length: size }, (_, i) => (i * seed) >> 3);
const describeTensor = (size: number) =>
  ({ shape: [size], dtype: 'int8', payloadType: 'hidden_state' }) as const;

/** The bytes of a transfer with the checksum in its trailer, as generated tensors have it. */
const transfer = (payload: Uint8Array, crc = platform.crc32(payload)) =>
  concatBytes([
    encodeTransferHead(describeTensor(payload.length), payload.length),
    payload,
    encodeTrailer(crc),
  ]);

const createReceiver = (
  mode: TransferMode,
  limits: Partial<Limits> = {},
  admit: (message: TensorMessage, deliver: () => void) => void = (_message, deliver) => deliver(),
) => {
  const log: string[] = [];
  const delivered: TensorMessage[] = [];
  const consumed = new Map<number, number>();
  const resolved = resolveLimits(limits);
  const memory = new MemoryBudget(Infinity).open(resolved.sessionMemory);
  const receiver = new TensorReceiver({
    mode,
    limits: resolved,
    memory: () => memory,
    now: () => 0,
    maxAssembledSize: resolved.maxTransferSize,
    admit,
    deliver: (message) => delivered.push(message),
    consume: (streamId, charge) => consumed.set(streamId, (consumed.get(streamId) ?? 0) + charge),
    accept: (streamId) => log.push(`accept ${streamId}`),
    refuse: (streamId, { code }) => log.push(`refuse ${streamId} ${code}`),
  });
  /** Passes a body, or its bytes from `from` to `to`, in pieces of `size` bytes. */
  const hand = (
    streamId: number,
    body: Uint8Array,
    {
      from = 0,
      to = body.length,
      size = 1000,
    }: { from?: number; to?: number | undefined; size?: number } = {},
  ) => {
    for (let at = from; at < to; at += size) {
      const bytes = body.subarray(at, Math.min(at + size, to));
      receiver.handlePiece(streamId, {
        bytes,
        offset: at,
        totalLength: body.length,
        address: undefined,
        charge: bytes.length,
      });
    }
  };
  const tensors = () => delivered.map(({ tensor }) => tensor);
  return { receiver, log, delivered, consumed, hand, tensors, memory };
};
const readAll = async (chunks: AsyncIterable<Uint8Array>, into: Uint8Array[] = []) => {
  for await (const chunk of chunks) into.push(chunk.slice());
  return concatBytes([new Uint8Array(0), ...into]);
};

describe('assembled tensors', () => {
  it.each([0, 1, 999, 20 * KIB])('of %i bytes arrive whole and verified, in aligned memory', (size) => {
    const { hand, log, tensors, consumed } = createReceiver('assemble');
    const body = transfer(bytesOf(size));
    hand(1, body);
    expect(log).toEqual(['accept 1']);
    const [tensor] = tensors() as AssembledTensor[];
    expect(tensor?.data).toEqual(bytesOf(size));
    expect(tensor).toMatchObject({ ...describeTensor(size), checksum: platform.crc32(bytesOf(size)) });
    expect(tensor?.data.byteOffset).toBe(0);
    expect(tensor?.toTyped()).toEqual(new Int8Array(bytesOf(size).buffer));
    expect(consumed.get(1)).toBe(body.length);
  });

  it('are not delivered before they are complete', () => {
    const { hand, log, delivered } = createReceiver('assemble');
    const body = transfer(bytesOf(5000));
    hand(1, body, { to: body.length - 1 });
    expect([log, delivered]).toEqual([[], []]);
    hand(1, body, { from: body.length - 1 });
    expect([log.length, delivered.length]).toEqual([1, 1]);
  });

  it('are decompressed, and verified afterwards', () => {
    const { hand, log, tensors } = createReceiver('assemble');
    const input: AvpInput = { data: new Uint8Array(50_000), ...describeTensor(50_000) };
    const body = encodeAvp(input, { compression: 'balanced' });
    expect(body.length).toBeLessThan(1000);
    hand(1, body, { size: 10 });
    const wrong = body.slice();
    // The checksum is the last field of the metadata, before the body.
    const at = new DataView(wrong.buffer).getUint32(8, true) + 11;
    wrong[at] = (wrong[at] ?? 0) ^ 1;
    hand(3, wrong);
    expect(log).toEqual(['accept 1', 'refuse 3 bad_checksum']);
    expect((tensors()[0] as AssembledTensor).data).toEqual(new Uint8Array(50_000));
  });

  it('wait without credit while others fill the memory, and continue in order when those are read', () => {
    const { hand, log, delivered, consumed } = createReceiver('assemble', { sessionMemory: 20 * KIB });
    const [first, second, third] = [1, 2, 3].map((seed) => transfer(bytesOf(12 * KIB, seed))) as [
      Uint8Array,
      Uint8Array,
      Uint8Array,
    ];
    hand(1, first);
    // As much as its credit allows.
    hand(3, second, { to: 2000 });
    hand(5, third);
    expect(log).toEqual(['accept 1']);
    expect([consumed.get(3) ?? 0, consumed.get(5) ?? 0]).toEqual([0, 0]);
    delivered[0]?.release();
    expect(consumed.get(3)).toBe(2000);
    expect(log).toEqual(['accept 1']);
    hand(3, second, { from: 2000 });
    delivered[1]?.release();
    expect(log).toEqual(['accept 1', 'accept 3', 'accept 5']);
    expect(consumed.get(5)).toBe(third.length);
    expect(delivered[2]?.tensor.data).toEqual(bytesOf(12 * KIB, 3));
  });

  it('that are not read take at most the memory of the session, even if they are empty', () => {
    const { hand, log, memory } = createReceiver('assemble', { sessionMemory: 20 * KIB });
    for (let i = 0; i < 100; i++) hand(2 * i + 1, transfer(new Uint8Array(0)));
    expect(log.length).toBeGreaterThan(10);
    expect(log.length).toBeLessThanOrEqual(20);
    expect(memory.used).toBeLessThanOrEqual(20 * KIB);
    expect(memory.used + memory.used / log.length).toBeGreaterThan(20 * KIB);
  });

  it('are charged for the memory of their metadata as objects', () => {
    const { hand, memory } = createReceiver('assemble');
    const extra = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`key ${i}`, 'x']));
    const frame = encodeAvp({ data: bytesOf(1), ...describeTensor(1), metadata: { extra } });
    hand(1, frame);
    expect(memory.used).toBeGreaterThan(5 * frame.length);
  });

  it('that are cancelled free their memory, whether they waited for it or not', () => {
    const { receiver, hand, log } = createReceiver('assemble', { sessionMemory: 20 * KIB });
    const body = transfer(bytesOf(12 * KIB));
    hand(1, body, { to: 2000 });
    hand(3, body, { to: 2000 });
    hand(5, body);
    receiver.handleCancel(3);
    expect(log).toEqual([]);
    receiver.handleCancel(1);
    expect(log).toEqual(['accept 5']);
  });

  it('of exactly the limit are accepted, and one byte more is refused', () => {
    const { hand, log } = createReceiver('assemble', { maxTransferSize: 5000 });
    hand(1, transfer(bytesOf(5000)));
    hand(3, transfer(bytesOf(5001)));
    expect(log).toEqual(['accept 1', 'refuse 3 transfer_too_large']);
  });
});

describe('streamed tensors', () => {
  it('are delivered with their head, and accepted when they were read completely', async () => {
    const { hand, log, tensors, consumed } = createReceiver('stream');
    const payload = bytesOf(50 * KIB);
    const body = transfer(payload);
    hand(1, body, { to: 200 });
    const [tensor] = tensors() as [StreamedTensor];
    expect(tensor).toMatchObject({ ...describeTensor(payload.length), byteLength: payload.length });
    expect(tensor.data).toBeUndefined();
    const reading = readAll(tensor.chunks);
    hand(1, body, { from: 200, to: 40 * KIB });
    await Promise.resolve();
    expect(log).toEqual([]);
    hand(1, body, { from: 40 * KIB });
    expect(
      createHash('sha256')
        .update(await reading)
        .digest('hex'),
    ).toBe(createHash('sha256').update(payload).digest('hex'));
    expect(log).toEqual(['accept 1']);
    expect(consumed.get(1)).toBe(body.length);
  });

  it('use up credit until they are read', async () => {
    const { hand, log, tensors, consumed } = createReceiver('stream');
    const body = transfer(bytesOf(3000));
    hand(1, body);
    expect(consumed.get(1) ?? 0).toBeLessThan(100);
    expect(log).toEqual([]);
    await readAll((tensors()[0] as StreamedTensor).chunks);
    expect(consumed.get(1)).toBe(body.length);
    expect(log).toEqual(['accept 1']);
  });

  it('without data are complete at once', async () => {
    const { hand, log, tensors } = createReceiver('stream');
    hand(1, transfer(new Uint8Array(0)));
    expect(log).toEqual(['accept 1']);
    expect(await readAll((tensors()[0] as StreamedTensor).chunks)).toEqual(new Uint8Array(0));
  });

  it('with a wrong checksum throw after the last byte, and are refused', async () => {
    const { hand, log, tensors } = createReceiver('stream');
    hand(1, transfer(bytesOf(3000), 7));
    expect(log).toEqual(['refuse 1 bad_checksum']);
    const got: Uint8Array[] = [];
    const reading = readAll((tensors()[0] as StreamedTensor).chunks, got);
    await expect(reading).rejects.toMatchObject({ code: 'bad_checksum' });
    expect(concatBytes(got)).toEqual(bytesOf(3000));
  });

  it('that the sender cancels throw after the bytes that arrived', async () => {
    const { receiver, hand, log, tensors } = createReceiver('stream');
    hand(1, transfer(bytesOf(3000)), { to: 2000 });
    receiver.handleCancel(1);
    const reading = readAll((tensors()[0] as StreamedTensor).chunks);
    await expect(reading).rejects.toMatchObject({ code: 'cancelled', side: 'remote' });
    expect(log).toEqual([]);
  });

  it('fail with their session', async () => {
    const { receiver, hand, tensors } = createReceiver('stream');
    hand(1, transfer(bytesOf(3000)), { to: 2000 });
    receiver.end(new Error('over'));
    await expect(readAll((tensors()[0] as StreamedTensor).chunks)).rejects.toThrow('over');
  });

  it.each(['leaving the loop', 'cancel()'])(
    'are refused by %s, and the unread bytes are credited',
    async (way) => {
      const { hand, log, tensors, consumed } = createReceiver('stream');
      const body = transfer(bytesOf(3000));
      hand(1, body, { to: 2500 });
      const [tensor] = tensors() as [StreamedTensor];
      if (way === 'cancel()') tensor.cancel();
      else for await (const _chunk of tensor.chunks) break;
      expect(log).toEqual(['refuse 1 cancelled']);
      expect(consumed.get(1)).toBe(2500);
      tensor.cancel();
      hand(1, body, { from: 2500 });
      expect(log).toHaveLength(1);
    },
  );

  it('can be read once', async () => {
    const { hand, tensors } = createReceiver('stream');
    hand(1, transfer(bytesOf(10)));
    const [tensor] = tensors() as [StreamedTensor];
    tensor.chunks[Symbol.asyncIterator]();
    expect(() => tensor.chunks[Symbol.asyncIterator]()).toThrowError(
      expect.objectContaining({ code: 'invalid_argument' }),
    );
  });

  it('are assembled if they are compressed', () => {
    const { hand, log, tensors } = createReceiver('stream');
    const data = new Uint8Array(50_000);
    hand(1, encodeAvp({ data, ...describeTensor(50_000) }, { compression: 'fast' }));
    expect((tensors()[0] as AssembledTensor).data).toEqual(data);
    expect(log).toEqual(['accept 1']);
  });
});

describe('a tensor that is scanned', () => {
  const withScan = (mode: TransferMode) => {
    const held: (() => void)[] = [];
    return { held, ...createReceiver(mode, {}, (_message, deliver) => held.push(deliver)) };
  };

  it('is neither delivered nor accepted before the scan ends', () => {
    const { held, hand, log, delivered } = withScan('assemble');
    hand(1, transfer(bytesOf(3000)));
    expect([log, delivered]).toEqual([[], []]);
    held[0]?.();
    expect([log, delivered.length]).toEqual([['accept 1'], 1]);
  });

  it('is not delivered if its sender cancels during the scan', () => {
    for (const mode of ['assemble', 'stream'] as const) {
      const { receiver, held, hand, log, delivered } = withScan(mode);
      hand(1, transfer(bytesOf(3000)), { to: mode === 'stream' ? 2000 : undefined });
      receiver.handleCancel(1);
      held[0]?.();
      expect([log, delivered]).toEqual([[], []]);
    }
  });

  it('keeps the bytes that arrived during the scan if it is streamed', async () => {
    const { held, hand, log, tensors } = withScan('stream');
    hand(1, transfer(bytesOf(3000)));
    expect(tensors()).toEqual([]);
    held[0]?.();
    expect(await readAll((tensors()[0] as StreamedTensor).chunks)).toEqual(bytesOf(3000));
    expect(log).toEqual(['accept 1']);
  });
});

describe('a hostile transfer is refused', () => {
  const modes = ['assemble', 'stream'] as const;

  it.each(modes)('that ends inside its head (%s)', (mode) => {
    const { receiver, log } = createReceiver(mode);
    const bytes = transfer(bytesOf(10)).subarray(0, 9);
    receiver.handlePiece(1, { bytes, offset: 0, totalLength: 9, address: undefined, charge: 9 });
    expect(log).toEqual(['refuse 1 truncated']);
  });

  it.each(modes)('whose frame has another length than the transfer (%s)', (mode) => {
    const { receiver, log } = createReceiver(mode);
    const bytes = transfer(bytesOf(10));
    receiver.handlePiece(1, {
      bytes,
      offset: 0,
      totalLength: 2 ** 52,
      address: undefined,
      charge: bytes.length,
    });
    receiver.handlePiece(3, { bytes, offset: 0, totalLength: 20, address: undefined, charge: bytes.length });
    expect(log).toEqual(['refuse 1 trailing_bytes', 'refuse 3 truncated']);
  });

  it.each(modes)('that expands to 1 GiB (%s)', (mode) => {
    const { hand, log, delivered } = createReceiver(mode);
    // A frame that declares 1 GiB and holds it: run-length blocks of 128 KiB, four bytes each.
    const bomb = new Uint8Array(9 + 8192 * 4);
    bomb.set([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40]);
    for (let i = 0; i < 8192; i++) bomb.set([i === 8191 ? 3 : 2, 0, 0x10, 0], 9 + 4 * i);
    const frame = encodeAvp({ data: bomb, dtype: 'int8', payloadType: 'hidden_state' }, { checksum: false });
    frame[3] = 1;
    hand(1, frame);
    expect(log).toEqual(['refuse 1 decompressed_too_large']);
    expect(delivered).toEqual([]);
  });

  it.each(modes)('with more compressed bytes than its content may have (%s)', (mode) => {
    const { hand, log } = createReceiver(mode, { maxMessageSize: 1000 });
    const frame = encodeAvp({ data: bytesOf(1001), dtype: 'int8', payloadType: 'hidden_state' });
    frame[3] = 1;
    hand(1, frame, { to: 200 });
    expect(log).toEqual(['refuse 1 decompressed_too_large']);
  });
});
