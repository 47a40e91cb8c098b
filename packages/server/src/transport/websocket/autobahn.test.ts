import { describe, expect, it } from 'vitest';
import { AUTOBAHN_CASES } from './testing/autobahn.js';
import { encodeFrame, listingReader, readInPieces } from './testing/frames.js';

const LIMITS = { maxPayload: 16 * 1024 * 1024, maxFragments: 1024 };

describe('the cases of Autobahn', () => {
  it('has as many as sections 1 to 7 do', () => {
    const counts = new Map<string, number>();
    for (const { id } of AUTOBAHN_CASES) {
      const section = id.split('.')[0] as string;
      counts.set(section, (counts.get(section) ?? 0) + 1);
    }
    expect(Object.fromEntries(counts)).toEqual({ 1: 16, 2: 11, 3: 7, 4: 10, 5: 20, 6: 145, 7: 37 });
    expect(new Set(AUTOBAHN_CASES.map(({ id }) => id)).size).toBe(AUTOBAHN_CASES.length);
  });

  for (const { id, sent, pieces, seen: expected } of AUTOBAHN_CASES) {
    it(id, () => {
      const frames = sent.map(encodeFrame);
      const { reader, seen } = listingReader(LIMITS);
      if (pieces === 'frames') for (const frame of frames) readInPieces(reader, frame, frame.length);
      else readInPieces(reader, Buffer.concat(frames), pieces === 'all' ? Infinity : pieces);
      expect(seen).toEqual(expected);
    });
  }

  it('reads the same in pieces of any size', () => {
    for (const { id, sent, seen: expected } of AUTOBAHN_CASES) {
      const bytes = Buffer.concat(sent.map(encodeFrame));
      for (const size of bytes.length > 10_000 ? [1_000, 4_099] : [1, 2, 3, 7, 19]) {
        const { reader, seen } = listingReader(LIMITS);
        readInPieces(reader, bytes, size);
        expect(seen, `${id} in pieces of ${size}`).toEqual(expected);
      }
    }
  });
});
