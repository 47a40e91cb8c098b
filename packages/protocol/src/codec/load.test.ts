import { expect, it } from 'vitest';
import { Algorithm } from '../base/constants.js';
import { type LoadableCodec, loadCodecs } from './load.js';
import { compressBrotli } from './text/brotli.js';

it('loads every codec, any number of times', async () => {
  const all: LoadableCodec[] = [...Object.values(Algorithm), 'AVP', 'CONTEXT'];
  await Promise.all([loadCodecs(all), loadCodecs(all), loadCodecs([])]);
  expect(compressBrotli(new Uint8Array(1)).length).toBeGreaterThan(0);
});

it('refuses the name of an unknown codec instead of ignoring it', async () => {
  for (const name of ['brotli', 'ZLIB', 'constructor', '']) {
    await expect(loadCodecs([name as LoadableCodec])).rejects.toMatchObject({ code: 'invalid_argument' });
  }
});
