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
const modes: Record<string, () => unknown> = {
  brotli: () => zlib.brotliCompressSync(buf, P),
  brotliParse: () => {
    JSON.parse(json);
    return zlib.brotliCompressSync(buf, P);
  },
  parseOnly: () => JSON.parse(json),
  encode: () => encodeM2M(json),
};
const f = modes[process.argv[2]!]!;
for (let i = 0; i < 2000; i++) f();
const t = process.hrtime.bigint(),
  c = process.cpuUsage();
for (let i = 0; i < 10000; i++) f();
const d = process.cpuUsage(c);
console.log(
  process.argv[2],
  Number(process.hrtime.bigint() - t) / 1e7,
  'us wall',
  (d.user + d.system) / 1e4,
  'us cpu',
);
