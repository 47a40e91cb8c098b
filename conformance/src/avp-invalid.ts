import { bytesOf } from './avp-bytes.js';
import { sameMetadata, samePayload } from './avp-message.js';
import { fail, judged, outcomeOf, VERDICTS } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import { decodeAvp, decodeKvCache, loadCodecs } from './subject.js';

/** Malformed and borderline AVP frames, and the KV-cache bodies of the accepted ones. */
export const avpInvalid: Family = {
  file: 'avp-invalid.json',
  head: ['generator', 'encoding', 'recipes', 'notes'],
  sections: [{ name: 'cases', check: checkFrame }],
  prepare: () => loadCodecs(['AVP']),
};

function checkFrame(given: Fields): void {
  const verdict = given.word('verdict', VERDICTS);
  const frame = bytesOf(given.object('frame'));
  if (frame === undefined) return fail('the case gives no frame');
  const outcome = outcomeOf(() => decodeAvp(frame));
  judged(outcome, verdict, 'the frame');
  // Lenient decoding accepts more, but must not throw other errors.
  outcomeOf(() => decodeAvp(frame, { lenient: true }));
  if (!outcome.accepted) return;

  const message = outcome.value;
  const reference = given.maybe('object', 'reference')?.maybe('object', 'decoded');
  if (reference !== undefined && verdict === 'accept') {
    sameMetadata(message, reference.object('metadata'));
    samePayload(message, reference);
  }
  const body = outcomeOf(() => [...decodeKvCache(message, { hasAllLayers: true })]);
  if (given.has('kv_verdict')) judged(body, given.word('kv_verdict', VERDICTS), 'the KV-cache body');
}
