import { readFileSync } from 'node:fs';
import zlib from 'node:zlib';
import { decodeM2M, encodeM2M, readM2MHeader } from './src/codec/m2m.ts';

const json = readFileSync(process.argv[2] ?? '/tmp/10k.json', 'utf8');
const buf = Buffer.from(json);
const P = {
  params: {
    [zlib.constants.BROTLI_PARAM_QUALITY]: 5,
    [zlib.constants.BROTLI_PARAM_LGWIN]: 22,
    [zlib.constants.BROTLI_PARAM_SIZE_HINT]: buf.length,
  },
};
const frame = encodeM2M(json);
const A = () => zlib.brotliCompressSync(buf, P),
  B = () => encodeM2M(json),
  C = () => decodeM2M(frame),
  D = () => {
    for (let i = 0; i < 20; i++) readM2MHeader(frame);
  };
const J = () => JSON.parse(json);
const run = (f: () => unknown) => {
  const t = process.hrtime.bigint();
  f();
  return Number(process.hrtime.bigint() - t) / 1e3;
};
for (let i = 0; i < 3000; i++) {
  A();
  B();
  C();
  readM2MHeader(frame);
  J();
}
const t: number[][] = [[], [], [], [], []];
for (let i = 0; i < 12000; i++) [A, B, C, D, J].forEach((f, k) => t[k]!.push(run(f)));
const q = (a: number[], p: number) => a.sort((x, y) => x - y)[Math.floor(a.length * p)]!;
const mean = (a: number[]) => a.reduce((x, y) => x + y) / a.length;
for (const p of [0.1, 0.5])
  console.log(
    p,
    t.map((a, k) => +(q(a, p) / (k === 3 ? 20 : 1)).toFixed(2)).join(' '),
    'enc/brotli',
    (q(t[1]!, p) / q(t[0]!, p)).toFixed(3),
    'dec/hdr',
    ((q(t[2]!, p) / q(t[3]!, p)) * 20).toFixed(1),
  );
console.log('mean enc/brotli', (mean(t[1]!) / mean(t[0]!)).toFixed(3));
