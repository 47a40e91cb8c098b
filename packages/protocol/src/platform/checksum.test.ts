import { describe, expect, it } from 'vitest';
import { platform as node } from './node.js';
import { platform as web } from './web.js';

describe.each([
  ['Node', node],
  ['the web', web],
] as const)('the CRC-32 of %s', (_name, platform) => {
  // Node's own starts over for an empty view without memory, such as that of an empty text.
  it.each([
    ['an empty text', new TextEncoder().encode('')],
    ['an empty view', new Uint8Array(0)],
    ['nothing of something', new Uint8Array(8).subarray(3, 3)],
  ])('continues over %s', (_what, nothing) => {
    const crc = platform.crc32(Uint8Array.of(1, 2, 3));
    expect(platform.crc32(nothing, crc)).toBe(crc);
    expect(platform.crc32(nothing)).toBe(0);
  });
});
