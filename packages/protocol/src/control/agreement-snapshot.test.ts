import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Algorithm, EncodingName, Subprotocol } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { type Answer, helloOf, offerKey, offerOf, serverAgreement } from './agreement.js';
import { agreementValues, readAgreement } from './agreement-snapshot.js';
import { parseHello } from './capabilities.js';
import { type Capabilities, negotiate } from './negotiate.js';

const someOf = <T>(values: readonly T[]) => fc.shuffledSubarray([...values]);
const capabilities: fc.Arbitrary<Capabilities> = fc.record({
  algorithms: someOf(Object.values(Algorithm)),
  encodings: someOf(Object.values(EncodingName)),
  vocabularies: fc.constant({}),
  securityScanning: fc.boolean(),
  maxPayloadSize: fc.constantFrom(0, 1_000, 16_777_216),
  extensions: someOf(['link', 'resume', 'context', 'std']).map((names) =>
    Object.fromEntries(names.map((name) => [name, '{}'])),
  ),
});
const limits = fc.constantFrom(
  resolveLimits(),
  resolveLimits({ messagesPerMinute: Infinity, maxStreams: 7 }),
);

it('reads back as it was, whatever two ends have agreed on', () => {
  fc.assert(
    fc.property(capabilities, capabilities, limits, (client, server, limits) => {
      const options = { subprotocol: Subprotocol.BINARY, limits, timers: resolveTimers() };
      const sent = helloOf({ ...options, capabilities: client }, undefined);
      const offer = offerOf({ ...parseHello({ version: '1.0' }), ...sent });
      const outcome = negotiate(offer, server);
      if (!outcome.accepted) return;
      const negotiated = serverAgreement(outcome.agreement, offer, { ...options, capabilities: server });
      const answer: Answer = { offer, key: offerKey(offer), outcome, negotiated };
      const values: unknown = JSON.parse(JSON.stringify(agreementValues(answer)));
      const read = readAgreement(values, { ...options, capabilities: server });
      const { reasons: _reasons, ...facts } = negotiated;
      expect(read.negotiated).toMatchObject(facts);
      expect(read.key).toBe(answer.key);
    }),
    { numRuns: 500 },
  );
});
