import { createHmac } from 'node:crypto';
import { accepted, holds, judged, outcomeOf, refused, same, VERDICTS } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import { schemaOption } from './m2m-frame.js';
import { sameHeader } from './m2m-header.js';
import { type Protection, sameFrame } from './m2m-layout.js';
import { decodeM2M, encodeM2M, encodeM2MText, loadCodecs, readM2MHeader } from './subject.js';

/** M2M v1 with HMAC and AEAD: valid frames, keys of all lengths, and frames that were tampered with. */
export const m2mSecure: Family = {
  file: 'm2m-secure.json',
  head: ['_meta'],
  sections: [
    { name: 'positive', check: checkProtected },
    { name: 'key_length', check: checkProtected },
    { name: 'negative', check: checkNegative },
  ],
  prepare: () => loadCodecs(['M2M']),
};

const MODES = { hmac: 'HMAC', aead: 'AEAD' } as const;
const MODE_WORDS = ['hmac', 'aead'] as const;
const PREFIX_LENGTH = 7;

function checkProtected(given: Fields): void {
  const verdict = given.word('verdict', VERDICTS);
  const json = given.text('input_json');
  const security: Protection = {
    mode: MODES[given.word('mode', MODE_WORDS)],
    key: given.hex('key_hex'),
  };
  const nonce = given.maybe('hex', 'nonce_hex');
  const options = { ...schemaOption(given), security, ...(nonce && { nonce }) };

  const encoded = outcomeOf(() => encodeM2M(json, options));
  judged(encoded, verdict, 'encoding');
  judged(
    outcomeOf(() => encodeM2MText(json, options)),
    verdict,
    'encoding as text',
  );
  if (encoded.accepted)
    same(accepted(() => decodeM2M(encoded.value, { security }), 'our own frame').json, json, 'read back');
  if (!given.has('frame_hex')) {
    holds(verdict !== 'accept', 'the case has no frame');
    return;
  }

  const frame = given.hex('frame_hex');
  checkParts(given, frame, security);
  for (const wire of [frame, given.text('frame_string')]) {
    const decoded = outcomeOf(() => decodeM2M(wire, { security }));
    judged(decoded, verdict, 'the frame');
    holds(decoded.accepted === encoded.accepted, 'encoder and decoder disagree on whether the key is valid');
    if (!decoded.accepted) continue;
    same(decoded.value.json, json, 'payload');
    same(
      accepted(() => readM2MHeader(wire), 'the header'),
      decoded.value.header,
      'header read without the key',
    );
    const reference = given.maybe('object', 'reference_decode_secure')?.maybe('object', 'fields');
    if (reference !== undefined) sameHeader(decoded.value.header, reference);
  }
  if (encoded.accepted) sameFrame(encoded.value, frame, json, security);
  checkDemands(frame, security);
}

/** A protected frame can be read only with exactly its mode and its key. */
function checkDemands(frame: Uint8Array, security: Protection): void {
  refused(() => decodeM2M(frame), 'a protected frame without its key');
  const other = security.mode === 'HMAC' ? 'AEAD' : 'HMAC';
  refused(
    () => decodeM2M(frame, { security: { mode: other, key: security.key } }),
    'a frame of another mode',
  );
  const key = Uint8Array.from(security.key, (byte) => byte ^ 1);
  refused(() => decodeM2M(frame, { security: { mode: security.mode, key } }), 'a frame under another key');
}

/** Compares the parts that a vector lists to those of its frame; the tag of an HMAC is computed again. */
function checkParts(given: Fields, frame: Uint8Array, security: Protection): void {
  const hex = (from: number, to?: number) => Buffer.from(frame.slice(from, to)).toString('hex');
  if (given.has('frame_bytes')) same(frame.length, given.number('frame_bytes'), 'frame_bytes');
  const end = PREFIX_LENGTH + given.number('header_len');
  if (security.mode === 'AEAD') {
    same(hex(PREFIX_LENGTH, end), given.text('aad_hex'), 'aad_hex');
    const sealed = given.text('nonce_hex') + given.text('ciphertext_hex') + given.text('tag_hex');
    same(hex(end), sealed, 'nonce, ciphertext and tag');
  } else if (given.has('hmac_input_hex')) {
    const input = given.hex('hmac_input_hex');
    same(hex(PREFIX_LENGTH), given.text('hmac_input_hex') + given.text('hmac_tag_hex'), 'HMAC input and tag');
    const tag = createHmac('sha256', security.key).update(input).digest('hex');
    same(tag, given.text('hmac_tag_hex'), 'HMAC tag');
  }
}

function checkNegative(given: Fields): void {
  const verdict = given.word('verdict', VERDICTS);
  const mode = MODES[given.word(given.has('policy') ? 'policy' : 'mode', MODE_WORDS)];
  const wire = given.maybe('text', 'frame_string') ?? given.hex('frame_hex');
  const decoded = outcomeOf(() => decodeM2M(wire, { security: { mode, key: given.hex('key_hex') } }));
  judged(decoded, verdict, `the frame under the policy ${mode}`);
  // Without a policy too, only a ProtocolError may be thrown.
  outcomeOf(() => decodeM2M(wire));
  outcomeOf(() => readM2MHeader(wire));
}
