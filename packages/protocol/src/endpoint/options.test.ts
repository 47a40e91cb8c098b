import fc from 'fast-check';
import { expect, it } from 'vitest';
import { resolveLimits } from '../base/limits.js';
import { linkParameters } from '../control/agreement.js';
import { resolveCapabilities } from './offer.js';

it('states windows that hold the head of any body, metadata included', () => {
  const size = fc.integer({ min: 1, max: 2 ** 24 });
  fc.assert(
    fc.property(size, size, size, size, (maxMetadataSize, sessionWindow, streamWindow, maxStreams) => {
      const limits = resolveLimits({ maxMetadataSize, sessionWindow, streamWindow, maxStreams });
      const { messageWindow, streamWindow: window } = linkParameters(
        resolveCapabilities({}, limits).extensions,
      );
      const least = Math.max(16_384, maxMetadataSize + 64);
      expect(messageWindow).toBeGreaterThanOrEqual(least);
      expect(window).toBeGreaterThanOrEqual(least);
    }),
  );
});
