import fc from 'fast-check';
import { Algorithm, EncodingName } from '../base/constants.js';
import type { Capabilities } from '../control/negotiate.js';

const someOf = <T>(values: readonly T[]) => fc.shuffledSubarray([...values]);

/** Any capabilities that two ends of this library may state. */
export const anyCapabilities: fc.Arbitrary<Capabilities> = fc.record({
  algorithms: someOf(Object.values(Algorithm)),
  encodings: someOf(Object.values(EncodingName)),
  vocabularies: fc.constant({}),
  securityScanning: fc.boolean(),
  maxPayloadSize: fc.oneof(fc.nat(5), fc.constantFrom(1_000, 16_777_216)),
  extensions: someOf(['link', 'resume', 'context', 'std']).map((names) =>
    Object.fromEntries(names.map((name) => [name, '{}'])),
  ),
});
