import { beforeAll, describe, expect, it } from 'vitest';
import { Algorithm } from '../../base/constants.js';
import { resolveLimits } from '../../base/limits.js';
import { LinkKind } from '../../link/frame.js';
import { errorCode } from '../../testing/error-code.js';
import { createProse, seeded } from '../../testing/prose.js';
import { platform } from '../../testing/this-platform.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { BodyCodec, type CodedBody, MAX_DEFERRED_GROWTH } from '../body.js';
import type { BodyCoderOptions } from '../coder.js';
import { ContextEncoder } from '../context/encoder.js';
import { loadEncoding } from '../vocabulary/load.js';
import { createBodyCoder } from './coder.js';

let encoding: Encoding;
beforeAll(async () => {
  [encoding] = await Promise.all([loadEncoding('CL100K_BASE'), platform.loadZstd()]);
});

/** A session's coder, and a function that does the link's part when a body is written. */
function createSender(options: Partial<BodyCoderOptions> = {}, maxMessageSize = 16 * 1024 * 1024) {
  const coder = createBodyCoder({
    algorithms: Object.values(Algorithm),
    encoding,
    limits: resolveLimits(),
    security: undefined,
    context: { maxMessageSize },
    yield: () => Promise.resolve(),
    ...options,
  });
  const encoder = new ContextEncoder({ maxBytes: 1024 * 1024, maxMessages: 8 });
  const write = (body: CodedBody, kind: 0 | 1 | 3 = LinkKind.REQUEST) => {
    const coded = body.deferred?.encode(encoder, 1, kind, kind === LinkKind.CHUNK) ?? {
      ...body,
      offer: undefined,
    };
    if (coded.offer !== undefined) {
      encoder.begin(1, coded.offer);
      encoder.complete(1);
    }
    return coded;
  };
  return { coder, write };
}

const prose = createProse(1);
const TEXT = prose(200);

describe('a message', () => {
  it('is plain content until it is written, and coded then', () => {
    const { coder, write } = createSender();
    const body = coder.encode(TEXT, { metadata: Uint8Array.of(0x80) });
    expect(body).toMatchObject({
      codec: BodyCodec.PLAIN,
      originalLength: TEXT.length,
      metadata: Uint8Array.of(0x80),
    });
    expect([new TextDecoder().decode(body.bytes), coder.lastSelection]).toEqual([TEXT, undefined]);
    expect(write(body).codec).toBe(BodyCodec.CONTEXT);
    expect(coder.lastSelection?.reason).toMatchObject({ rule: 'investment' });
    expect(coder.lastSelection?.reason.tried.map(({ algorithm }) => algorithm)).toContain('CONTEXT');
    expect(write(coder.encode(`${TEXT} more`, {})).bytes.length).toBeLessThan(20);
    expect(coder.lastSelection).toMatchObject({
      algorithm: 'CONTEXT',
      reason: { rule: 'context' },
      context: {
        base: 2,
        dictionary: TEXT.length,
        prefix: TEXT.length,
        suffix: 0,
        middle: 5,
        compressed: false,
      },
    });
  });

  it('is coded at once if it cannot be coded in context', () => {
    const { coder } = createSender();
    const cases: [string | Uint8Array, object][] = [
      ['a few words', {}],
      [TEXT, { compressAlone: true }],
      [TEXT, { algorithm: 'BROTLI' }],
      [new Uint8Array(31), {}],
      ['x'.repeat(8 * 1024 * 1024 + 1), {}],
    ];
    for (const [content, options] of cases) {
      expect(coder.isDeferred(content, options)).toBe(false);
      expect(coder.encode(content, options).deferred).toBeUndefined();
    }
    expect(createSender({ context: undefined }).coder.encode(TEXT, {}).deferred).toBeUndefined();
    const key = new Uint8Array(32);
    const secured = createSender({ security: { mode: 'HMAC', key } }).coder;
    expect(secured.encode('{"model":"m","messages":[]}'.padEnd(60), {}).deferred).toBeUndefined();
  });

  it('is coded at once if another codec might exceed the limit of the peer', () => {
    const limit = 200;
    const deferred = (length: number) =>
      createSender({}, limit).coder.encode(TEXT.slice(0, length), {}).deferred;
    expect([deferred(limit - MAX_DEFERRED_GROWTH), deferred(limit - MAX_DEFERRED_GROWTH + 1)]).toEqual([
      { encode: expect.any(Function) },
      undefined,
    ]);
  });

  it('never grows by more than it is allowed to, in any codec', () => {
    const random = seeded(5);
    // Each character takes several tokens of three bytes.
    const text = Array.from({ length: 300 }, () =>
      String.fromCodePoint(0x12000 + Math.floor(random() * 900)),
    ).join('');
    const { coder, write } = createSender({ algorithms: ['TOKEN_NATIVE'] });
    for (let i = 0; i < 10; i++) {
      const body = coder.encode(text.slice(i * 2), {});
      expect(write(body).bytes.length).toBeLessThanOrEqual(body.bytes.length + MAX_DEFERRED_GROWTH);
    }
  });

  it('is coded in context if no codec can carry it, and in another codec if that is smaller', () => {
    const only = createSender({ algorithms: ['M2M'] });
    for (let i = 0; i < 10; i++)
      expect(only.write(only.coder.encode(prose(40), {})).codec).toBe(BodyCodec.CONTEXT);
    const { coder, write } = createSender();
    const codecs = Array.from({ length: 10 }, () => write(coder.encode(prose(40), {})).codec);
    expect(codecs.slice(5)).toContain(BodyCodec.BROTLI);
    expect(coder.lastSelection).toMatchObject({ algorithm: 'BROTLI' });
    expect(coder.lastSelection).not.toHaveProperty('context');
  });

  it('given as bytes is copied, and stays plain if it resembles no earlier message', () => {
    const { coder, write } = createSender();
    const bytes = new TextEncoder().encode(TEXT);
    const body = coder.encode(bytes, {});
    bytes.fill(0);
    expect(new TextDecoder().decode(body.bytes)).toBe(TEXT);
    write(body);
    expect(write(coder.encode(new TextEncoder().encode(`${TEXT}!`), {})).bytes.length).toBeLessThan(16);
    const random = seeded(2);
    const noise = Array.from(
      { length: 40 },
      () =>
        write(
          coder.encode(
            Uint8Array.from({ length: 500 }, () => random() * 256),
            {},
          ),
        ).codec,
    );
    expect(noise.filter((codec) => codec === BodyCodec.PLAIN).length).toBeGreaterThan(30);
  });

  it('is not compared with other codecs if it is long', () => {
    const { coder, write } = createSender();
    expect(write(coder.encode(prose(40_000), {})).codec).toBe(BodyCodec.CONTEXT);
    expect(coder.lastSelection?.reason.tried.map(({ algorithm }) => algorithm)).toEqual(['CONTEXT']);
  });

  it('is coded in context on request, or refused with a reason', () => {
    const { coder, write } = createSender();
    expect(write(coder.encode('x', { algorithm: 'CONTEXT' })).codec).toBe(BodyCodec.CONTEXT);
    expect(errorCode(() => coder.encode(TEXT, { algorithm: 'CONTEXT', compressAlone: true }))).toBe(
      'invalid_argument',
    );
    const without = createSender({ context: undefined }).coder;
    expect(errorCode(() => without.encode(TEXT, { algorithm: 'CONTEXT' }))).toBe('unsupported');
  });

  it('with half a surrogate pair is refused when it is sent', () => {
    const { coder } = createSender();
    expect(errorCode(() => coder.encode(`${TEXT}\ud800`, {}))).toBe('lone_surrogate');
  });
});

describe('a few words', () => {
  it('are sent as their tokens, and a single blank as it is', () => {
    const { coder } = createSender();
    expect(coder.encode(' world', {})).toMatchObject({ codec: BodyCodec.TOKEN_NATIVE });
    expect(coder.encode(' world', {}).bytes.length).toBe(2);
    expect(coder.encode(' ', {})).toMatchObject({ codec: BodyCodec.PLAIN, bytes: Uint8Array.of(0x20) });
    expect(coder.lastSelection?.reason.rule).toBe('heuristic');
  });
});
