import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Algorithm } from '../base/constants.js';

/** The offer of a client on Node if packages are missing. */

let installed: typeof import('./installed.js');
const missing = () => {
  throw new Error('not installed');
};

async function without(...encodings: ('cl100k' | 'o200k')[]): Promise<void> {
  vi.doMock('../codec/vocabulary/load.js', () => ({
    isEncodingAvailable: async (name: string) =>
      !encodings.some((each) => name.toLowerCase().startsWith(each)),
  }));
  installed = await import('./installed.js');
}

beforeEach(() => {
  vi.resetModules();
  vi.doUnmock('../codec/vocabulary/load.js');
  vi.doUnmock('#platform');
});

describe('a client without js-tiktoken', () => {
  it('offers neither encodings nor TOKEN_NATIVE', async () => {
    await without('cl100k', 'o200k');
    const { algorithms, encodings } = await installed.installedDefaults({});
    expect(encodings).toEqual([]);
    expect(algorithms).toEqual(Object.values(Algorithm).filter((name) => name !== 'TOKEN_NATIVE'));
    expect(await installed.installedDefaults({ algorithms: ['BROTLI', 'NONE'] })).toEqual({
      encodings: [],
      algorithms: ['BROTLI', 'NONE'],
    });
  });

  it('offers what its options name', async () => {
    await without('cl100k', 'o200k');
    expect(await installed.installedDefaults({ encodings: ['CL100K_BASE'] })).toEqual({});
    expect(await installed.installedDefaults({ algorithms: ['TOKEN_NATIVE'] })).toEqual({});
  });

  it('offers the vocabularies that are there', async () => {
    await without('o200k');
    expect(await installed.installedDefaults({})).toEqual({ encodings: ['CL100K_BASE'] });
  });
});

describe('a client whose bundler left zstd.wasm behind', () => {
  beforeEach(async () => {
    vi.doMock('#platform', () => ({ platform: { name: 'node', loadZstd: async () => missing() } }));
    await without();
  });

  it('offers no context', async () => {
    const { extensions } = await installed.installedDefaults({ extensions: { resume: false } });
    expect(extensions).toEqual({ resume: false, context: false });
  });

  it('offers context if its options name it', async () => {
    expect((await installed.installedDefaults({ extensions: { context: true } })).extensions).toBeUndefined();
  });
});
