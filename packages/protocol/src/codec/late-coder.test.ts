import { describe, expect, it } from 'vitest';
import type { Algorithm } from '../base/constants.js';
import { resolveLimits } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { errorCode } from '../testing/error-code.js';
import { createBodyCoder } from './auto/coder.js';
import { BodyCodec, plainBody, type ReceivedBody } from './body.js';
import { LateCoder } from './late-coder.js';

const LIMITS = resolveLimits();
const received = (codec: BodyCodec, bytes: Uint8Array): ReceivedBody => ({
  codec,
  bytes,
  originalLength: undefined,
  secret: false,
  metadata: undefined,
  charge: 0,
});

function setUp(algorithms: readonly Algorithm[] = ['TOKEN', 'DICTIONARY', 'NONE']) {
  let isLoaded = false;
  const coder = new LateCoder({
    algorithms,
    limits: LIMITS,
    create: () =>
      isLoaded
        ? createBodyCoder({
            algorithms,
            encoding: undefined,
            limits: LIMITS,
            security: undefined,
            yield: async () => {},
          })
        : undefined,
    load: () => undefined,
  });
  const use = () => coder.use({ algorithms: ['DICTIONARY', 'NONE'], hasContext: false, encoding: undefined });
  return {
    coder,
    use,
    load() {
      isLoaded = true;
      use();
    },
  };
}

describe('a coder whose code is not loaded', () => {
  it('sends text and bytes as they are, secret or not, with metadata', async () => {
    const { coder } = setUp();
    const metadata = Uint8Array.of(1);
    const text = '{"role":"user","content":"Grüße"}';
    expect(coder.encode(text, { metadata })).toEqual(plainBody(encodeUtf8(text), metadata));
    expect(coder.encode(Uint8Array.of(1, 2), { compressAlone: true })).toMatchObject({
      codec: 0,
      secret: true,
    });
    expect(await coder.encodeInSlices(text, {})).toEqual(plainBody(encodeUtf8(text)));
    expect(coder.encodeNothing(metadata)).toEqual(plainBody(new Uint8Array(0), metadata));
    expect(coder.isDeferred(text, {})).toBe(false);
  });

  it('decodes plain bodies, and refuses all others', () => {
    const { coder } = setUp(['M2M', 'TOKEN_NATIVE', 'DICTIONARY', 'NONE']);
    const bytes = encodeUtf8('[1,2]');
    expect(coder.decode(received(BodyCodec.PLAIN, bytes))).toBe(bytes);
    expect(coder.parse('[1,2]', { paid: 5 })).toEqual([1, 2]);
    const body = received(BodyCodec.M2M, bytes);
    for (const use of [
      () => coder.decode(body),
      () => coder.tokens(body),
      () => coder.header(body),
      () => coder.tensor(body),
      () => coder.encodeTokens([1], {}),
      () => coder.createPartText(),
      () => coder.encode('x', { algorithm: 'DICTIONARY' }),
    ]) {
      expect(errorCode(use)).toBe('codec_not_loaded');
    }
  });

  it('refuses codecs that were not negotiated, whether or not their code is there', () => {
    const { coder, load } = setUp(['TOKEN', 'NONE']);
    const uses = [
      () => coder.encode('x', { algorithm: 'BROTLI' }),
      () => coder.encode('x', { algorithm: 'CONTEXT' }),
      () => coder.encodeTokens([1], {}),
    ];
    for (const use of uses) expect(errorCode(use)).toBe('unsupported');
    load();
    for (const use of uses) expect(errorCode(use)).toBe('unsupported');
  });

  it('charges plain bodies like the coder that takes its place', () => {
    const { coder, load } = setUp();
    const bodies = [0, 512, 513, 16 * 1024, 16 * 1024 + 1, 100_000].map((length) =>
      received(BodyCodec.PLAIN, new Uint8Array(length)),
    );
    const before = bodies.map((body) => [coder.memoryOf(body), coder.decodedLength(body)]);
    load();
    expect(bodies.map((body) => [coder.memoryOf(body), coder.decodedLength(body)])).toEqual(before);
    expect(before.at(-1)?.[0]).toBe(200_000);
  });

  it('codes as soon as its code is loaded', () => {
    const { coder, use, load } = setUp();
    const text = '{"role":"user","content":"hello","role":"user"}';
    use();
    expect(coder.encode(text, {}).codec).toBe(BodyCodec.PLAIN);
    expect(coder.lastSelection).toBeUndefined();
    load();
    expect(coder.encode(text, {}).codec).toBe(BodyCodec.DICTIONARY);
    expect(coder.lastSelection?.algorithm).toBe('DICTIONARY');
  });
});
