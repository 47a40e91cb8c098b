import { brotliCompressSync, constants, deflateSync } from 'node:zlib';
import { atMost, compare, type Row } from '../row.js';
import { decodeBrotli, decodeM2M, decodeText, encodeM2M, ProtocolError } from './subject.js';
import { timeInTurns } from './timing.js';

const EXPANDED = 64 * 1024 * 1024;
/** How long refusing a message may block the other sessions. */
const MAX_MS = 50;

/** Time to detect that a few bytes expand to 64 MiB, and to refuse them at 16 MiB. */
export function* measureBombs(rounds: number): Generator<Row> {
  const json = Buffer.from(`"${'x'.repeat(EXPANDED)}"`);
  const brotli = brotliCompressSync(json, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } });
  const brotliText = `#BR|${brotli.toString('base64')}`;
  const zlibText = `#M2M[v2.0]|DATA:${deflateSync(json).toString('base64')}`;
  const m2m = encodeM2M(json.toString(), { limits: { maxMessageSize: Infinity, maxStringLength: Infinity } });
  const bombs = new Map<string, () => unknown>([
    [`M2M v1, ${m2m.length} B`, () => decodeM2M(m2m)],
    [`Brotli, ${brotliText.length} B`, () => decodeBrotli(brotliText)],
    [`zlib, ${zlibText.length} B`, () => decodeText(zlibText, { zlib: true })],
  ]);
  const times = timeInTurns(
    new Map([...bombs].map(([name, decode]) => [name, () => refuse(name, decode)])),
    rounds,
  );
  for (const [name, us] of times) {
    const limit = { name: `${MAX_MS} ms`, value: MAX_MS };
    yield compare(`bomb of 64 MiB refused, ${name}`, 'ms', 'lower', us / 1000, limit, atMost(1));
  }
}

function refuse(name: string, decode: () => unknown): void {
  try {
    decode();
  } catch (error) {
    if (error instanceof ProtocolError && error.code === 'decompressed_too_large') return;
    throw error;
  }
  throw new Error(`${name}: the bomb was decoded`);
}
