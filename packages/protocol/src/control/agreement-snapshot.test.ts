import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Subprotocol } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { anyCapabilities } from '../testing/capabilities.js';
import { type Answer, helloOf, offerKey, offerOf, serverAgreement } from './agreement.js';
import { agreementValues, readAgreement } from './agreement-snapshot.js';
import { parseHello } from './capabilities.js';
import { negotiate } from './negotiate.js';

const limits = fc.constantFrom(
  resolveLimits(),
  resolveLimits({ messagesPerMinute: Infinity, maxStreams: 7 }),
);

it('reads back as it was, whatever two ends have agreed on', () => {
  fc.assert(
    fc.property(anyCapabilities, anyCapabilities, limits, (client, server, limits) => {
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
