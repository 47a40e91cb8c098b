import { vi } from 'vitest';

/** The modules under test on one platform; each call loads them again. */
export async function loadOn(name: 'node' | 'web') {
  vi.resetModules();
  if (name === 'node') {
    vi.doUnmock('#platform');
    vi.doUnmock('#crypto');
  } else {
    const { loadWebPlatform } = await import('./web-platform.js');
    const platform = await loadWebPlatform();
    vi.doMock('#platform', () => ({ platform }));
    vi.doMock('#crypto', () => import('../platform/web-crypto.js'));
  }
  const [m2m, keys, exchange, errors, { platform }, { cryptoSuite }] = await Promise.all([
    import('../codec/m2m/m2m.js'),
    import('../codec/crypto/keys.js'),
    import('../codec/crypto/key-agreement.js'),
    import('../base/errors.js'),
    import('#platform'),
    import('#crypto'),
  ]);
  if (platform.name !== name) throw new Error(`loaded ${platform.name} instead of ${name}`);
  return { ...m2m, ...keys, ...exchange, ...errors, platform, cryptoSuite, codeOf };

  /** The code of the `ProtocolError` that `run` throws, or `no error` if it returns. Rethrows other errors. */
  function codeOf(run: () => unknown): string {
    try {
      run();
    } catch (error) {
      if (errors.isProtocolError(error)) return error.code;
      throw error;
    }
    return 'no error';
  }
}

export type UnderTest = Awaited<ReturnType<typeof loadOn>>;
