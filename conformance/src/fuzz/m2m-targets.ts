import { createCipheriv, createHmac } from 'node:crypto';
import { brotliDecompressSync, crc32 } from 'node:zlib';
import { accepted, type Outcome, outcomeOf, same } from '../expect.js';
import { decodeM2M, encodeM2M, type M2MMessage, type M2MSecurity, readM2MHeader } from '../subject.js';
import { seedsFrom } from './seeds.js';
import { base64Of, FUZZ_LIMITS, JSON_TOKENS, type Target, textOf, tokens } from './target.js';

/** M2M v1 frames in all forms and under every policy. */

const PREFIX = '#M2M|1|';
const PREFIX_LENGTH = PREFIX.length;
const SECURITY_OFFSET = PREFIX_LENGTH + 3;
const FLAGS_OFFSET = PREFIX_LENGTH + 4;
const COMPRESSED = 1 << 24;
const MIN_LENGTH = PREFIX_LENGTH + 20 + 8;

const limits = FUZZ_LIMITS;
const KEY = new Uint8Array(32).fill(0x42);
const HMAC: M2MSecurity = { mode: 'HMAC', key: KEY };
const AEAD: M2MSecurity = { mode: 'AEAD', key: KEY };
const NONCE = new Uint8Array(12).fill(7);

const GOOD = { model: 'gpt-4o', messages: [{ role: 'user', content: 'x'.repeat(120) }] };

function seeds(): Uint8Array[] {
  return seedsFrom('m2m-frame.json', 'encode_hex', 'frame_hex');
}

/** A plain frame, unchanged and with length and checksum corrected, so that its content is reached. */
const plain: Target = {
  name: 'm2m',
  tokens: [...JSON_TOKENS, ...tokens(PREFIX)],
  seeds: seeds(),
  run(input) {
    const outcome = decoded(input);
    const repaired = repair(input);
    if (repaired !== undefined) decoded(repaired);
    return !outcome.accepted;
  },
  recheck: () => recheck(),
};

function decoded(frame: Uint8Array): Outcome<M2MMessage> {
  const outcome = outcomeOf(() => decodeM2M(frame, { limits }));
  const header = outcomeOf(() => readM2MHeader(frame));
  if (!outcome.accepted) return outcome;
  const message = outcome.value;
  same(header.accepted && header.value, message.header, 'header read alone');
  same(Buffer.from(message.bytes).toString('utf8'), message.json, 'bytes and text');
  outcomeOf(() => message.value());
  const text = PREFIX + base64Of(frame.subarray(PREFIX_LENGTH));
  same(accepted(() => decodeM2M(text, { limits }), 'the text form').json, message.json, 'text form');
  return outcome;
}

const text: Target = {
  name: 'm2m-text',
  tokens: tokens(PREFIX, '=', '==', 'AAAA', '/+9', '\n', '-_'),
  seeds: seedsFrom('m2m-frame.json', 'encode_string', 'frame_string'),
  run(input) {
    const wire = textOf(input);
    const outcome = outcomeOf(() => decodeM2M(wire, { limits }));
    const header = outcomeOf(() => readM2MHeader(wire));
    if (outcome.accepted) same(header.accepted && header.value, outcome.value.header, 'header read alone');
    return !outcome.accepted;
  },
  recheck: () => recheck(),
};

/** Frames under a policy: unchanged, and with a valid tag over their content. */
const secure: Target = {
  name: 'm2m-secure',
  tokens: JSON_TOKENS,
  seeds: [...seeds(), ...seedsFrom('m2m-secure.json', 'frame_hex')],
  run(input) {
    let refused = false;
    for (const security of [HMAC, AEAD]) {
      refused = !outcomeOf(() => decodeM2M(input, { limits, security })).accepted || refused;
      const signed = sign(repair(input) ?? input, security);
      if (signed === undefined) continue;
      const outcome = outcomeOf(() => decodeM2M(signed, { limits, security }));
      if (!outcome.accepted) continue;
      same(outcome.value.header.security, security.mode, 'mode of an accepted frame');
      const flipped = signed.slice();
      const at = PREFIX_LENGTH + (input.length % (signed.length - PREFIX_LENGTH));
      flipped[at] = (flipped[at] as number) ^ 1;
      same(
        outcomeOf(() => decodeM2M(flipped, { limits, security })).accepted,
        false,
        'a frame with a flipped bit',
      );
    }
    return refused;
  },
  recheck() {
    for (const security of [HMAC, AEAD]) recheck(security);
  },
};

export const M2M_TARGETS: readonly Target[] = [plain, text, secure];

const goodFrames = new Map<M2MSecurity | undefined, Uint8Array>();

function recheck(security?: M2MSecurity): void {
  const options = { limits, ...(security && { security, nonce: NONCE }) };
  const frame = goodFrames.get(security) ?? accepted(() => encodeM2M(GOOD, options), 'a good message');
  goodFrames.set(security, frame);
  same(accepted(() => decodeM2M(frame, options), 'a good frame').json, JSON.stringify(GOOD), 'a good frame');
}

/** The offset of a frame's tail, if it has one. */
function tailOffset(frame: Uint8Array): number | undefined {
  if (frame.length < MIN_LENGTH) return undefined;
  const at = PREFIX_LENGTH + ((frame[PREFIX_LENGTH] as number) | ((frame[PREFIX_LENGTH + 1] as number) << 8));
  return at + 8 <= frame.length ? at : undefined;
}

/** The frame with the correct length and checksum of its payload. */
function repair(frame: Uint8Array): Uint8Array | undefined {
  const at = tailOffset(frame);
  if (at === undefined) return undefined;
  const repaired = frame.slice();
  const view = new DataView(repaired.buffer);
  let content = repaired.subarray(at + 8);
  if ((view.getUint32(FLAGS_OFFSET, true) & COMPRESSED) !== 0) {
    try {
      content = brotliDecompressSync(content, { maxOutputLength: limits.maxMessageSize });
    } catch {
      return undefined;
    }
  }
  view.setUint32(at, frame.length - at - 8, true);
  view.setUint32(at + 4, crc32(content), true);
  return repaired;
}

/** Protects a plain frame without checking its content. */
function sign(frame: Uint8Array, { mode, key }: M2MSecurity): Uint8Array | undefined {
  const at = tailOffset(frame);
  if (at === undefined) return undefined;
  const body = frame.slice();
  body[SECURITY_OFFSET] = mode === 'HMAC' ? 1 : 2;
  if (mode === 'HMAC') {
    return Buffer.concat([body, createHmac('sha256', key).update(body.subarray(PREFIX_LENGTH)).digest()]);
  }
  const cipher = createCipheriv('chacha20-poly1305', key, NONCE, { authTagLength: 16 });
  cipher.setAAD(body.subarray(PREFIX_LENGTH, at), { plaintextLength: body.length - at });
  const sealed = [cipher.update(body.subarray(at)), cipher.final()];
  return Buffer.concat([body.subarray(0, at), NONCE, ...sealed, cipher.getAuthTag()]);
}
