import { readFileSync } from 'node:fs';
import zlib from 'node:zlib';
import { encodeM2M } from './src/codec/m2m.ts';

const json = readFileSync('/tmp/10k.json', 'utf8');
const buf = Buffer.from(json);
const P = {
  params: {
    [zlib.constants.BROTLI_PARAM_QUALITY]: 5,
    [zlib.constants.BROTLI_PARAM_LGWIN]: 22,
    [zlib.constants.BROTLI_PARAM_SIZE_HINT]: buf.length,
  },
};
const A = () => zlib.brotliCompressSync(buf, P),
  B = () => encodeM2M(json);
for (let i = 0; i < 3000; i++) {
  A();
  B();
}
const N = 50;
const ta: number[][] = Array.from({ length: N }, () => []),
  tb: number[][] = Array.from({ length: N }, () => []);
for (let k = 0; k < 100; k++)
  for (const [f, t] of [
    [A, ta],
    [B, tb],
  ] as const)
    for (let i = 0; i < N; i++) {
      const s = process.hrtime.bigint();
      f();
      t[i]!.push(Number(process.hrtime.bigint() - s) / 1e3);
    }
const med = (a: number[]) => a.sort((x, y) => x - y)[a.length >> 1]!;
const mean = (a: number[]) => a.reduce((x, y) => x + y) / a.length;
console.log('A', ta.map((a) => med(a).toFixed(0)).join(' '), mean(ta.flat()).toFixed(1));
console.log('B', tb.map((a) => med(a).toFixed(0)).join(' '), mean(tb.flat()).toFixed(1));
for (const [n, t] of [
  ['A', ta],
  ['B', tb],
] as const) {
  const all = t.flat().sort((x, y) => y - x);
  console.log(
    n,
    'count>300',
    all.filter((x) => x > 300).length,
    'sum>300',
    all
      .filter((x) => x > 300)
      .reduce((x, y) => x + y, 0)
      .toFixed(0),
    all
      .slice(0, 12)
      .map((x) => x.toFixed(0))
      .join(' '),
  );
}
