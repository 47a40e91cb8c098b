import { readFileSync } from 'node:fs';
import zlib from 'node:zlib';
import {
  decodeM2M,
  decodeM2MBody,
  encodeM2M,
  encodeM2MBody,
  encodeM2MText,
  readM2MHeader,
} from '/work/main/packages/protocol/src/codec/m2m.ts';
import { assertJsonBounds, parseJson } from '/work/main/packages/protocol/src/json.ts';

const json = readFileSync('/tmp/10k.json', 'utf8');
const buf = Buffer.from(json);
const P = {
  params: {
    [zlib.constants.BROTLI_PARAM_QUALITY]: 5,
    [zlib.constants.BROTLI_PARAM_LGWIN]: 22,
    [zlib.constants.BROTLI_PARAM_SIZE_HINT]: buf.length,
  },
};
const key = new Uint8Array(32).fill(7);
const frame = encodeM2M(json);
const hm = encodeM2M(json, { security: { mode: 'HMAC', key } });
const ae = encodeM2M(json, { security: { mode: 'AEAD', key } });
const text = encodeM2MText(json);
const cases: Record<string, () => unknown> = {
  brotli: () => zlib.brotliCompressSync(buf, P),
  brotliStr: () => zlib.brotliCompressSync(json, P),
  encode: () => encodeM2M(json),
  encodeHMAC: () => encodeM2M(json, { security: { mode: 'HMAC', key } }),
  encodeAEAD: () => encodeM2M(json, { security: { mode: 'AEAD', key } }),
  brotliD: () => zlib.brotliDecompressSync(frame.subarray(frame.length - 4721)),
  decode: () => decodeM2M(frame),
  decodeHMAC: () => decodeM2M(hm, { security: { mode: 'HMAC', key } }),
  decodeAEAD: () => decodeM2M(ae, { security: { mode: 'AEAD', key } }),
  header: () => readM2MHeader(frame),
  headerText: () => readM2MHeader(text),
  bounds: () => assertJsonBounds(json),
  parse: () => JSON.parse(json),
};
const only = process.argv[2]?.split(',');
if (only) for (const n in cases) if (!only.includes(n)) delete cases[n];
const times: Record<string, number[]> = {};
for (const n in cases) {
  times[n] = [];
  for (let i = 0; i < 2000; i++) cases[n]!();
}
const names = Object.keys(cases);
for (let k = 0; k < 61; k++)
  for (const n of names
    .map((n) => [Math.random(), n] as const)
    .sort((a, b) => a[0] - b[0])
    .map((x) => x[1])) {
    const t = process.hrtime.bigint();
    for (let i = 0; i < 50; i++) cases[n]!();
    times[n]!.push(Number(process.hrtime.bigint() - t) / 5e4);
  }
const med = (a: number[]) => a.sort((x, y) => x - y)[a.length >> 1]!;
const r = Object.fromEntries(Object.entries(times).map(([n, a]) => [n, med(a)]));
console.log(
  json.length,
  frame.length,
  Object.fromEntries(Object.entries(r).map(([n, v]) => [n, +v.toFixed(2)])),
);
if (!only)
  console.log(
    'encode/brotli',
    (r.encode! / r.brotli!).toFixed(3),
    'encode/brotliStr',
    (r.encode! / r.brotliStr!).toFixed(3),
    'decode/header',
    (r.decode! / r.header!).toFixed(1),
    (r.decode! / r.headerText!).toFixed(1),
  );
