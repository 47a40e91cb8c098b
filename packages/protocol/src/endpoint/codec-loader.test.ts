import { expect, it } from 'vitest';
import { Algorithm, Extension } from '../base/constants.js';
import type { BodyForm } from '../codec/algorithms.js';
import { type CodecLoader, loadAgreed } from './codec-loader.js';

/** The codecs that a server loads for a session of another process. */

function loaderOf(ready: readonly BodyForm[]) {
  const loads: (() => void)[] = [];
  const asked: string[] = [];
  const loader: CodecLoader = {
    isLazy: false,
    isReady: (form) => ready.includes(form),
    load(form, encoding) {
      asked.push(`${form} ${encoding}`);
      return new Promise<void>((resolve) => loads.push(resolve));
    },
  };
  return { loader, loads, asked };
}

const AGREED = {
  algorithms: [Algorithm.NONE, Algorithm.TOKEN_NATIVE, Algorithm.BROTLI],
  encoding: 'O200K_BASE',
  extensions: { [Extension.CONTEXT]: '{}' },
} as const;

it('loads what the session was agreed to use and is missing, and waits for all of it', async () => {
  const { loader, loads, asked } = loaderOf(['NONE', 'BROTLI']);
  let isLoaded = false;
  const loading = loadAgreed(AGREED, loader)?.then(() => {
    isLoaded = true;
  });
  expect(asked).toEqual(['TOKEN_NATIVE O200K_BASE', 'CONTEXT O200K_BASE']);
  loads[0]?.();
  await Promise.resolve();
  expect(isLoaded).toBe(false);
  loads[1]?.();
  await loading;
  expect(isLoaded).toBe(true);
});

it('waits for nothing if all of it is there, although other code is missing', () => {
  const { loader, asked } = loaderOf(['NONE', 'TOKEN_NATIVE', 'BROTLI']);
  expect(loadAgreed({ ...AGREED, extensions: {} }, loader)).toBe(undefined);
  expect(asked).toEqual([]);
});
