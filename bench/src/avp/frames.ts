import * as zlib from 'node:zlib';
import { decodeAvp, encodeAvp } from '@parlance/protocol';
import { timeInTurns } from '../codecs/timing.js';
import { compare, type Row } from '../row.js';

/** In Node since 20.15, but missing from some versions of its types. */
const { crc32 } = zlib as unknown as { crc32(data: Uint8Array): number };

/** @property maxOverheadUs the most that encoding and decoding may cost beyond two copies and checksums. */
const CASES = [
  { dim: 4096, dtype: 'float32', minSpeedUp: 60, maxOverheadUs: 3 },
  { dim: 384, dtype: 'float32', minSpeedUp: 15, maxOverheadUs: undefined },
] as const;
const MIN_SHRINKING = 4.7;

/**
 * One hidden state, encoded and decoded: as a frame, as JSON, and the minimal cost of copying its bytes and
 * computing a CRC.
 */
export function* measureFrames(rounds: number): Generator<Row> {
  for (const { dim, dtype, minSpeedUp, maxOverheadUs } of CASES) {
    const data = Float32Array.from({ length: dim }, gaussian);
    const bytes = new Uint8Array(data.buffer);
    const tensor = { data, shape: [dim], dtype, payloadType: 'hidden_state' } as const;
    const asJson = () => JSON.stringify({ embedding: Array.from(data) });
    const times = timeInTurns(
      new Map([
        ['AVP', () => void decodeAvp(encodeAvp(tensor))],
        ['JSON', () => void JSON.parse(asJson())],
        ['copy + CRC', () => void crc32(bytes.slice())],
      ]),
      rounds,
    );
    const us = (name: 'AVP' | 'JSON' | 'copy + CRC') => times.get(name) ?? Number.NaN;
    const against = (name: 'JSON' | 'copy + CRC') => ({ name, value: us(name) });
    const name = `hidden state ${dim} ${dtype}`;
    yield compare(`${name}, encode + decode`, 'us', 'lower', us('AVP'), against('JSON'), (ratio) => ({
      text: `<= 1/${minSpeedUp}`,
      met: ratio <= 1 / minSpeedUp,
    }));
    yield compare(`${name}, encode + decode`, 'us', 'lower', us('AVP'), against('copy + CRC'), () =>
      maxOverheadUs === undefined
        ? undefined
        : {
            text: `<= 2x + ${maxOverheadUs} us`,
            met: us('AVP') <= 2 * us('copy + CRC') + maxOverheadUs,
          },
    );
    const json = { name: 'JSON', value: asJson().length };
    yield compare(`${name}, size`, 'B', 'lower', encodeAvp(tensor).length, json, (ratio) => ({
      text: `<= 1/${MIN_SHRINKING}`,
      met: ratio <= 1 / MIN_SHRINKING,
    }));
  }
}

/** Normally distributed, roughly as hidden states are (Box–Muller). */
function gaussian(): number {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}
