import { afterEach, expect, it, vi } from 'vitest';
import { connect } from './client.js';

afterEach(() => void vi.unstubAllGlobals());

it.each([undefined, {}])(
  'connect names crypto.getRandomValues and the remedy if crypto is %o',
  async (crypto) => {
    vi.stubGlobal('crypto', crypto);
    await expect(connect('ws://127.0.0.1:1')).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/crypto\.getRandomValues.*polyfill before connect/),
    });
  },
);
