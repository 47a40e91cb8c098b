import { afterEach, describe, expect, it } from 'vitest';
import type { Encoding } from '../tokenizer/encoding.js';
import { loadedEncodings } from '../tokenizer/loaded.js';
import { parts } from './parts-web.js';

describe('the default offer of a page', () => {
  const LIGHT = ['TOKEN', 'DICTIONARY', 'NONE'];
  afterEach(() => loadedEncodings.clear());

  it('is neither M2M nor Brotli, nor tokens without a vocabulary', async () => {
    expect(await parts.defaults({})).toEqual({ algorithms: LIGHT, encodings: [] });
  });

  it('is tokens too, if it names an encoding or has loaded one', async () => {
    const algorithms = ['TOKEN_NATIVE', ...LIGHT];
    expect(await parts.defaults({ encodings: ['O200K_BASE'] })).toEqual({
      algorithms,
      encodings: ['O200K_BASE'],
    });
    loadedEncodings.set('CL100K_BASE', {} as Encoding);
    expect(await parts.defaults({})).toEqual({ algorithms, encodings: ['CL100K_BASE'] });
    expect(await parts.defaults({ encodings: [] })).toEqual({ algorithms: LIGHT, encodings: [] });
  });

  it('leaves named algorithms as they are, and adds the usual encodings to TOKEN_NATIVE', async () => {
    expect(await parts.defaults({ algorithms: ['BROTLI', 'NONE'] })).toEqual({ encodings: [] });
    expect(await parts.defaults({ algorithms: ['TOKEN_NATIVE'] })).toEqual({});
    expect(await parts.defaults({ algorithms: ['TOKEN_NATIVE'], encodings: [] })).toEqual({ encodings: [] });
  });

  it('is M2M alone with a key', async () => {
    expect(await parts.defaults({ security: {} })).toEqual({ algorithms: ['M2M'] });
  });
});
