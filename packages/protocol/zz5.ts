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
const te = new TextEncoder(),
  scratch = new Uint8Array(65536),
  words = new Int32Array(scratch.buffer);
function hasControl(length: number) {
  const n = length >> 2;
  let f = 0;
  for (let i = 0; i < n; i++) {
    const x = words[i]!;
    f |= (x - 0x20202020) & ~x;
  }
  return (f & 0x80808080) !== 0;
}
const ESC = new Uint8Array(128);
for (const c of '"\\/bfnrt') ESC[c.charCodeAt(0)] = 1;
function outline(text: string) {
  let small = '';
  let from = 0;
  let esc = text.indexOf('\\');
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at + 1)) {
    let end = text.indexOf('"', at + 1);
    while (text.charCodeAt(end - 1) === 92) {
      let f = end - 1;
      while (text.charCodeAt(f - 1) === 92) f--;
      if ((end - f) % 2 === 0) break;
      end = text.indexOf('"', end + 1);
    }
    if (end - at > 255) {
      let n = 0;
      if (esc !== -1 && esc < at) esc = text.indexOf('\\', at);
      for (; esc >= 0 && esc < end; esc = text.indexOf('\\', esc + 2)) {
        if (ESC[text.charCodeAt(esc + 1)] !== 1) return undefined;
        n++;
      }
      small += `${text.slice(from, at)}"\\ud800${end - at - n}"`;
      from = end + 1;
    }
    at = end;
  }
  return JSON.parse(small + text.slice(from));
}
const enc = () => scratch.subarray(0, te.encodeInto(json, scratch).written);
const brotli = (b: Uint8Array) => zlib.brotliCompressSync(b, P);

import { platform } from '#platform';
import { DEFAULT_COST_TABLE } from './src/codec/m2m-cost.ts';
import { encodeHeader } from './src/codec/m2m-header.ts';
import { detectSchema, routingFields } from './src/codec/m2m-routing.ts';
import { assertPairedEscapes, parseJson } from './src/json.ts';

const step = (n: number) => () => {
  const m = n >= 1 ? parseJson(json) : JSON.parse(json);
  if (n >= 2) assertPairedEscapes(json);
  const f = n >= 3 ? routingFields(m, detectSchema(m), DEFAULT_COST_TABLE) : undefined;
  const content = enc();
  const p = n >= 4 ? platform.brotliCompress(content, 5) : brotli(content);
  const h = n >= 5 ? encodeHeader({ ...f!, flags: f!.flags | (1 << 24) }, 'NONE') : undefined;
  if (n >= 6) platform.crc32(content);
  if (n >= 7) {
    const frame = new Uint8Array(15 + h!.length + p.length);
    frame.set(h!, 7);
    const v = new DataView(frame.buffer);
    v.setUint32(40, 1, true);
    v.setUint32(44, 1, true);
    frame.set(p, 15 + h!.length);
    return frame;
  }
  return p;
};
const F: Record<string, () => unknown> = { A: () => brotli(buf) };
for (let n = 0; n < 8; n++) F['s' + n] = step(n);
F.E = () => encodeM2M(json);
for (let i = 0; i < 2000; i++) for (const k in F) F[k]!();
const N = 50;
const T: Record<string, number[]> = {};
for (const k in F) T[k] = [];
for (let k = 0; k < 60; k++)
  for (const n in F)
    for (let i = 0; i < N; i++) {
      const s = process.hrtime.bigint();
      F[n]!();
      T[n]!.push(Number(process.hrtime.bigint() - s) / 1e3);
    }
const med = (a: number[]) => a.sort((x, y) => x - y)[a.length >> 1]!;
const mean = (a: number[]) => a.reduce((x, y) => x + y) / a.length;
console.log(
  Object.entries(T)
    .map(([k, a]) => `${k} ${med(a).toFixed(1)}/${mean(a).toFixed(1)}`)
    .join('  '),
);
