import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { concatBytes, equalBytes } from '../../base/bytes.js';
import { MAX_PIECE_SIZE } from '../../link/body-writer.js';
import { errorCode } from '../../testing/error-code.js';
import { piecesOf, tensorSize } from './source.js';
import type { TensorInput } from './tensor.js';

const collect = async (data: TensorInput['data']) => {
  const pieces: Uint8Array[] = [];
  // Copied, because the memory of a piece is reused when the next one is requested.
  for await (const piece of piecesOf(data)) pieces.push(piece.slice());
  return pieces;
};
const numbered = (length: number) => Uint8Array.from({ length }, (_, i) => (i * 7) >> 2);

describe('pieces', () => {
  it('of a view are parts of it, none larger than a frame', async () => {
    const data = new Float32Array(MAX_PIECE_SIZE / 2);
    const pieces = [];
    for await (const piece of piecesOf(data)) pieces.push(piece);
    expect(pieces.map(({ length }) => length)).toEqual([MAX_PIECE_SIZE, MAX_PIECE_SIZE]);
    for (const piece of pieces) expect(piece.buffer).toBe(data.buffer);
    expect(await collect(new Uint8Array(0))).toEqual([]);
  });

  it('of a source contain its bytes, in few frames, for chunks of any size', async () => {
    const size = fc.oneof(fc.nat(100), fc.nat(100_000), fc.nat(600_000));
    await fc.assert(
      fc.asyncProperty(fc.array(size, { maxLength: 12 }), async (sizes) => {
        const total = sizes.reduce((sum, each) => sum + each, 0);
        const bytes = numbered(total);
        // The source reuses one buffer.
        const buffer = new Uint8Array(600_000);
        const source = function* () {
          let at = 0;
          for (const each of sizes) {
            buffer.set(bytes.subarray(at, at + each));
            at += each;
            yield buffer.subarray(0, each);
            buffer.fill(255);
          }
        };
        const pieces = await collect(source());
        expect(equalBytes(concatBytes([new Uint8Array(0), ...pieces]), bytes)).toBe(true);
        for (const piece of pieces) expect(piece.length).toBeLessThanOrEqual(MAX_PIECE_SIZE);
        for (const piece of pieces.slice(0, -1)) expect(piece.length).toBeGreaterThanOrEqual(64 * 1024);
      }),
      { numRuns: 30 },
    );
  });

  it('are requested from the source one at a time', async () => {
    let given = 0;
    const source = async function* () {
      for (; given < 5; given++) yield new Uint8Array(MAX_PIECE_SIZE);
    };
    const pieces = piecesOf(source());
    for (let asked = 0; asked < 5; asked++) {
      expect(given).toBe(Math.max(0, asked - 1));
      await pieces.next();
    }
  });

  it('can be made from any views, and from nothing else', async () => {
    expect(await collect([Uint16Array.of(1, 2), new DataView(new ArrayBuffer(2))])).toEqual([
      Uint8Array.of(1, 0, 2, 0, 0, 0),
    ]);
    await expect(collect([1, 2] as never)).rejects.toMatchObject({ code: 'invalid_argument' });
    await expect(collect(['text'] as never)).rejects.toMatchObject({ code: 'invalid_argument' });
  });

  it('close the source when their reader leaves', async () => {
    let left = false;
    const source = async function* () {
      try {
        for (;;) yield new Uint8Array(MAX_PIECE_SIZE);
      } finally {
        left = true;
      }
    };
    const pieces = piecesOf(source());
    await pieces.next();
    await pieces.return();
    expect(left).toBe(true);
  });
});

describe('the size of a tensor', () => {
  const of = (input: Partial<TensorInput>) =>
    tensorSize({ data: [], dtype: 'float16', payloadType: 'hidden_state', ...input });

  it('is that of its view, or the stated one', () => {
    expect(of({ data: new Float32Array(3), shape: [1] })).toBe(12);
    expect(of({ shape: [2, 3] })).toBe(12);
    expect(of({ byteLength: 7 })).toBe(7);
    expect(of({ byteLength: 0, shape: [5] })).toBe(0);
  });

  it('must be stated for generated data', () => {
    const codeFor = (input: Partial<TensorInput>) => errorCode(() => of(input));
    for (const input of [
      {},
      { shape: [] },
      { byteLength: -1 },
      { byteLength: 1.5 },
      { byteLength: Number.NaN },
    ])
      expect(codeFor(input)).toBe('invalid_argument');
    expect(codeFor({ shape: [2 ** 31, 2 ** 31] })).toBe('bad_tensor');
  });
});
