import { expect, it, vi } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { createZstd } from '../zstd.js';
import { loadPlainEngine } from './plain.js';

it('reports codec_not_loaded if the file of the codec is missing, and loads it when it is there', async () => {
  vi.doMock('./engine.js', () => {
    throw new TypeError('Failed to fetch dynamically imported module');
  });
  const zstd = createZstd(loadPlainEngine);
  await expect(zstd.loadZstd()).rejects.toMatchObject({ code: 'codec_not_loaded' });
  expect(errorCode(() => zstd.zstdCompress(new Uint8Array(9), 3))).toBe('codec_not_loaded');
  vi.doUnmock('./engine.js');
  vi.resetModules();
  await zstd.loadZstd();
  expect(zstd.isZstdLoaded()).toBe(true);
});
