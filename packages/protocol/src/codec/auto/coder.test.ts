import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { Algorithm, Prefix } from '../../base/constants.js';
import { DEFAULT_LIMITS, type Limits, resolveLimits } from '../../base/limits.js';
import { decodeUtf8, encodeUtf8 } from '../../base/text.js';
import { errorCode } from '../../testing/error-code.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { encodeAvp } from '../avp/frame.js';
import { BodyCodec, type CodedBody, isSized, type ReceivedBody } from '../body.js';
import type { BodyCoderOptions } from '../coder.js';
import { encodeM2MBody } from '../m2m/m2m.js';
import { compressBrotli } from '../text/brotli.js';
import { encodeDictionaryBody } from '../text/dictionary.js';
import { largestExpansion } from '../text/expansion.js';
import { DEFAULTS_LENGTH } from '../text/token-tables.js';
import { loadEncoding } from '../vocabulary/load.js';
import { createBodyCoder } from './coder.js';

let encoding: Encoding;
beforeAll(async () => {
  encoding = await loadEncoding('CL100K_BASE');
});

const createCoder = (change: Partial<BodyCoderOptions> = {}) =>
  createBodyCoder({
    algorithms: Object.values(Algorithm),
    encoding,
    limits: resolveLimits(),
    security: undefined,
    yield: () => Promise.resolve(),
    ...change,
  });
/** The body as the link delivers it: only some codecs state their length there. */
const received = ({ codec, bytes, originalLength, secret, metadata }: CodedBody): ReceivedBody => ({
  codec,
  bytes,
  originalLength: isSized(codec) ? originalLength : undefined,
  secret,
  metadata,
  charge: 0,
});
const decoded = (coder: ReturnType<typeof createCoder>, body: CodedBody) =>
  Buffer.from(coder.decode(received(body))).toString();

const CHAT = JSON.stringify({
  model: 'gpt-4o',
  messages: [{ role: 'user', content: 'Tell me about the sea. '.repeat(20) }],
  temperature: 0.5,
});
/** An algorithm, and text that it can carry. */
const SAMPLES = [
  [Algorithm.NONE, 'plain, and é漢\u{1f600}'],
  [Algorithm.TOKEN_NATIVE, 'tokens, and é漢\u{1f600}'],
  [Algorithm.BROTLI, 'compressed, and é漢\u{1f600}'],
  [Algorithm.DICTIONARY, '{"messages":[{"role":"user","content":"hello"}]}'],
  [Algorithm.M2M, CHAT],
  [
    Algorithm.TOKEN,
    // T1 keeps the meaning of JSON: an object without omitted defaults is restored unchanged.
    '{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"é漢"},"finish_reason":"stop"}]}',
  ],
] as const;
const CODECS: Readonly<Record<Algorithm, BodyCodec>> = {
  NONE: BodyCodec.PLAIN,
  TOKEN_NATIVE: BodyCodec.TOKEN_NATIVE,
  M2M: BodyCodec.M2M,
  BROTLI: BodyCodec.BROTLI,
  TOKEN: BodyCodec.TOKEN,
  DICTIONARY: BodyCodec.DICTIONARY,
};

describe.each(SAMPLES)('%s', (algorithm, text) => {
  it('carries its text to the receiver and reports the codec', () => {
    const coder = createCoder();
    const metadata = Uint8Array.of(0x80);
    for (const secret of [true, false]) {
      const body = coder.encode(text, { algorithm, compressAlone: secret, metadata });
      expect(body).toMatchObject({ codec: CODECS[algorithm], secret, metadata });
      expect(body.originalLength).toBe(Buffer.byteLength(text));
      expect(decoded(coder, body)).toBe(text);
    }
    expect(coder.encode(text, { algorithm })).toMatchObject({ secret: false, metadata: undefined });
  });

  it('carries the same text given as bytes, and given in slices', async () => {
    const coder = createCoder();
    const whole = coder.encode(text, { algorithm });
    expect(coder.encode(encodeUtf8(text), { algorithm })).toEqual(whole);
    const sliced = await coder.encodeInSlices(text, { algorithm, compressAlone: true });
    expect(sliced).toMatchObject({ codec: whole.codec, originalLength: whole.originalLength, secret: true });
    expect(decoded(coder, sliced)).toBe(text);
  });

  it('is unsupported if it was not negotiated, for every way to ask for it', async () => {
    const others = Object.values(Algorithm).filter((name) => name !== algorithm);
    const coder = createCoder({ algorithms: others });
    expect(errorCode(() => coder.encode(text, { algorithm }))).toBe('unsupported');
    expect(errorCode(() => coder.encode(encodeUtf8(text), { algorithm }))).toBe('unsupported');
    expect(errorCode(() => coder.encode(Uint8Array.of(0xff), { algorithm }))).toBe('unsupported');
    await expect(coder.encodeInSlices(text, { algorithm })).rejects.toMatchObject({ code: 'unsupported' });
  });

  it('refuses half a surrogate pair', async () => {
    const lone =
      algorithm === 'M2M' || algorithm === 'TOKEN' ? `{"messages":[],"model":"\ud800"}` : 'a\ud800';
    expect(errorCode(() => createCoder().encode(lone, { algorithm }))).toBe('lone_surrogate');
    await expect(createCoder().encodeInSlices(lone, { algorithm })).rejects.toMatchObject({
      code: 'lone_surrogate',
    });
  });
});

describe('a session that negotiated only TOKEN', () => {
  const coder = () => createCoder({ algorithms: [Algorithm.TOKEN] });

  it.each([
    '{"watch":true}',
    '{"present":[{"id":"a","metadata":{"m":1}}],"gone":[],"complete":true}',
    '"text"',
  ])('carries %s by itself', (json) => {
    const body = coder().encode(json, {});
    expect([body.codec, decoded(coder(), body)]).toEqual([BodyCodec.TOKEN, json]);
  });

  it.each(['text', '{ "a": 1 }', CHAT.replace('0.5', '1')])(
    'refuses %j, which would not come back',
    (text) => {
      expect(errorCode(() => coder().encode(text, {}))).toBe('unrepresentable');
    },
  );
});

describe('auto', () => {
  it('carries any text, byte for byte, in a codec that was negotiated', () => {
    const coder = createCoder();
    const texts = fc.oneof(fc.string({ unit: 'binary' }), fc.json(), fc.constant(CHAT));
    fc.assert(
      fc.property(texts, (text) => {
        const body = coder.encode(text, {});
        expect(body.codec).not.toBe(BodyCodec.TOKEN);
        expect(body.originalLength).toBe(Buffer.byteLength(text));
        expect(decoded(coder, body)).toBe(text);
        expect(CODECS[coder.lastSelection?.algorithm as Algorithm]).toBe(body.codec);
      }),
      { numRuns: 200 },
    );
  });

  describe.each([
    ['the escape of half a pair', '{"a":"\\ud83d"}'],
    ['the same in a list of messages', '{"messages":[{"role":"user","content":"\\udc00"}]}'],
    ['a role that no header has', '{"messages":[{"role":"none"}]}'],
    ['an ID that no header has', `{"id":"${'i'.repeat(300)}","choices":[]}`],
    ...[1e39, 2 ** 32, 1e300].map((count) => [
      `${count} tokens`,
      `{"id":"1","choices":[],"usage":{"prompt_tokens":${count},"completion_tokens":1}}`,
    ]),
    ['a list in brackets without end', '['.repeat(40)],
  ])('carries %s byte for byte', (_what, text) => {
    it.each([
      [[Algorithm.M2M, Algorithm.NONE], undefined],
      [[Algorithm.M2M, Algorithm.BROTLI], undefined],
      [Object.values(Algorithm), undefined],
      [[Algorithm.M2M], { mode: 'HMAC', key: new Uint8Array(16) }],
      [[Algorithm.M2M], { mode: 'AEAD', key: new Uint8Array(32) }],
    ] as const)('in %s, with security %o', async (algorithms, security) => {
      const coder = createCoder({ algorithms, security });
      expect(decoded(coder, coder.encode(text, {}))).toBe(text);
      expect(decoded(coder, await coder.encodeInSlices(text, {}))).toBe(text);
    });
  });

  it('refuses half of a surrogate pair by its name, with each choice of codecs', async () => {
    const security = { mode: 'HMAC', key: new Uint8Array(16) } as const;
    for (const change of [
      {},
      { algorithms: [Algorithm.M2M] },
      { security },
      { algorithms: [Algorithm.DICTIONARY] },
    ]) {
      expect(errorCode(() => createCoder(change).encode('{"a":"\ud83d"}', {}))).toBe('lone_surrogate');
    }
  });

  it.each(Object.values(Prefix).flatMap((prefix) => [prefix, `${prefix}é`, `${prefix}C|AA==`]))(
    'carries %s in a codec that says so where plain text must not begin with it',
    (text) => {
      for (const algorithms of [
        Object.values(Algorithm),
        [Algorithm.NONE, Algorithm.BROTLI],
        [Algorithm.NONE, Algorithm.TOKEN_NATIVE],
      ]) {
        const coder = createCoder({ algorithms, isPrefixed: true });
        for (const content of [text, encodeUtf8(text)]) {
          const body = coder.encode(content, {});
          expect(body.codec).not.toBe(BodyCodec.PLAIN);
          expect(decoded(coder, body)).toBe(text);
        }
      }
      expect(createCoder({ algorithms: [Algorithm.NONE] }).encode(text, {}).codec).toBe(BodyCodec.PLAIN);
      const alone = createCoder({ algorithms: [Algorithm.NONE], isPrefixed: true });
      expect(errorCode(() => alone.encode(text, {}))).toBe('unrepresentable');
    },
  );

  it.each(Object.values(Algorithm))('uses %s alone if nothing else was negotiated', (algorithm) => {
    const coder = createCoder({ algorithms: [algorithm] });
    if (algorithm === Algorithm.TOKEN)
      expect(errorCode(() => coder.encode(CHAT, {}))).toBe('unrepresentable');
    else expect(coder.encode(CHAT, {}).codec).toBe(CODECS[algorithm]);
  });

  it('carries any bytes as they are, or compressed if it must', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        for (const [algorithms, codec] of [
          [Object.values(Algorithm), BodyCodec.PLAIN],
          [[Algorithm.M2M, Algorithm.BROTLI], BodyCodec.BROTLI],
        ] as const) {
          const coder = createCoder({ algorithms });
          const body = coder.encode(bytes, { compressAlone: true });
          expect(body).toMatchObject({ codec, originalLength: bytes.length, secret: true });
          expect([...coder.decode(received(body))]).toEqual([...bytes]);
        }
      }),
    );
  });

  it('refuses bytes that are not text if no negotiated codec can carry them', () => {
    const coder = createCoder({ algorithms: [Algorithm.TOKEN_NATIVE] });
    expect(decoded(coder, coder.encode(encodeUtf8('text'), {}))).toBe('text');
    expect(errorCode(() => coder.encode(Uint8Array.of(0xff), {}))).toBe('unrepresentable');
    const forced = createCoder();
    expect(errorCode(() => forced.encode(Uint8Array.of(0xff), { algorithm: 'TOKEN_NATIVE' }))).toBe(
      'unrepresentable',
    );
  });

  it('protects every message of a session that has a key', () => {
    const security = { mode: 'HMAC', key: new Uint8Array(16) } as const;
    const coder = createCoder({ security });
    const body = coder.encode(CHAT, {});
    expect(body.codec).toBe(BodyCodec.M2M);
    expect(decoded(coder, body)).toBe(CHAT);
    expect(errorCode(() => coder.decode(received(createCoder().encode(CHAT, { algorithm: 'M2M' }))))).toBe(
      'security_required',
    );
    // A word of a streamed answer is not JSON, but it is protected as well.
    for (const text of ['', 'Hel', '[DONE]', '{"role":"nobody"']) {
      const part = coder.encode(text, {});
      expect(part.codec).toBe(BodyCodec.M2M);
      expect(decoded(coder, part)).toBe(text);
    }
    // Bytes that cannot be protected are not sent.
    expect(coder.encode(encodeUtf8(CHAT), {}).codec).toBe(BodyCodec.M2M);
    expect(errorCode(() => coder.encode(Uint8Array.of(0xff), {}))).toBe('unrepresentable');
  });
});

describe('a long text', () => {
  const LONG = 'The sea is wide and old. '.repeat(8_000);
  const slicesOf = async (change: Partial<BodyCoderOptions>, text: string) => {
    let yields = 0;
    const yielding = async () => {
      yields++;
    };
    const coder = createCoder({ ...change, yield: yielding });
    const body = await coder.encodeInSlices(text, {});
    expect(body.originalLength).toBe(Buffer.byteLength(text));
    expect(decoded(coder, body)).toBe(text);
    return { codec: body.codec, yields };
  };

  it('lets the event loop run while its tokens are encoded', async () => {
    const { codec, yields } = await slicesOf({ algorithms: [Algorithm.TOKEN_NATIVE, Algorithm.NONE] }, LONG);
    expect(codec).toBe(BodyCodec.TOKEN_NATIVE);
    expect(yields).toBeGreaterThan(3);
  });

  it.each(Object.values(Algorithm).filter((name) => name !== Algorithm.TOKEN))(
    'that is JSON is carried by %s alone',
    async (algorithm) => {
      const chat = JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: LONG }] });
      expect((await slicesOf({ algorithms: [algorithm] }, chat)).codec).toBe(CODECS[algorithm]);
    },
  );

  it('is carried even if the codec chosen by its beginning cannot carry its end', async () => {
    const turns = '{"role":"user","content":"hello"},'.repeat(6_000);
    const algorithms = [Algorithm.DICTIONARY, Algorithm.NONE];
    expect((await slicesOf({ algorithms }, `${turns} é`)).codec).toBe(BodyCodec.PLAIN);
    expect((await slicesOf({ algorithms }, turns)).codec).toBe(BodyCodec.DICTIONARY);
  });

  it('may have a surrogate pair at the end of the sample', async () => {
    for (const before of [32 * 1024 - 2, 32 * 1024 - 1, 32 * 1024])
      await slicesOf({}, `${'x'.repeat(before)}${'\u{1f600}'.repeat(9)}`);
  });
});

describe('token IDs', () => {
  const IDS = [15339, 1917];

  it('are sent as they are, and state the bytes that they stand for', () => {
    const coder = createCoder();
    for (const ids of [IDS, Uint32Array.from(IDS)]) {
      const body = coder.encodeTokens(ids, { compressAlone: true });
      expect(body).toMatchObject({ codec: BodyCodec.TOKEN_NATIVE, originalLength: 11, secret: true });
      expect([...coder.tokens(received(body))]).toEqual(IDS);
      expect(decodeUtf8(coder.decode(received(body)))).toBe('hello world');
    }
  });

  it('are unsupported without an encoding, and if TOKEN_NATIVE was not negotiated', () => {
    for (const change of [{ encoding: undefined }, { algorithms: [Algorithm.NONE] }])
      expect(errorCode(() => createCoder(change).encodeTokens(IDS, {}))).toBe('unsupported');
    const body = received(createCoder().encodeTokens(IDS, {}));
    expect(errorCode(() => createCoder({ encoding: undefined }).decode(body))).toBe('unsupported');
  });

  it('that are not in the vocabulary are refused before they are sent', () => {
    expect(errorCode(() => createCoder().encodeTokens([4_000_000_000], {}))).toBe('bad_token');
  });
});

describe('a received body', () => {
  const BODIES: readonly (readonly [string, BodyCodec, (content: string) => Uint8Array])[] = [
    ['BROTLI', BodyCodec.BROTLI, (content) => compressBrotli(encodeUtf8(content))],
    ['M2M', BodyCodec.M2M, (content) => encodeM2MBody(content)],
    ['DICTIONARY', BodyCodec.DICTIONARY, (content) => encodeDictionaryBody(encodeUtf8(content))],
  ];
  const decode = (
    codec: BodyCodec,
    bytes: Uint8Array,
    originalLength: number,
    limits: Limits = DEFAULT_LIMITS,
  ) =>
    errorCode(() =>
      createCoder({ limits }).decode({ ...received({ codec, bytes } as CodedBody), originalLength }),
    );

  it.each(BODIES)('in %s holds what it states, and neither more nor less', (_name, codec, encode) => {
    const bytes = encode(CHAT);
    expect(decode(codec, bytes, CHAT.length)).toBe('none');
    for (const lie of [CHAT.length + 1, CHAT.length - 1, 1, 0])
      expect(['bad_frame', 'decompressed_too_large']).toContain(decode(codec, bytes, lie));
  });

  it.each(BODIES)('in %s is decoded at n bytes and refused at n + 1', (_name, codec, encode) => {
    const bytes = encode(CHAT);
    expect(decode(codec, bytes, CHAT.length, resolveLimits({ maxMessageSize: CHAT.length }))).toBe('none');
    expect(decode(codec, bytes, CHAT.length, resolveLimits({ maxMessageSize: CHAT.length - 1 }))).toBe(
      'decompressed_too_large',
    );
  });

  it('as tokens is limited by the bytes that it expands to', () => {
    const bytes = encoding.encodeVarints(' the'.repeat(100));
    const limit = (maxMessageSize: number) =>
      errorCode(() =>
        createCoder({ limits: resolveLimits({ maxMessageSize }) }).decode(
          received({ codec: BodyCodec.TOKEN_NATIVE, bytes } as CodedBody),
        ),
      );
    expect(limit(400)).toBe('none');
    expect(limit(399)).toMatch(/too_large$/);
  });

  it('that states more bytes than it may expand to is refused before anything is decoded', () => {
    const damaged = Uint8Array.of(0xff, 0xff, 0xff);
    const largest = largestExpansion(damaged.length);
    expect(decode(BodyCodec.BROTLI, damaged, largest)).toBe('bad_compression');
    for (const codec of [BodyCodec.BROTLI, BodyCodec.M2M, BodyCodec.TOKEN, BodyCodec.DICTIONARY]) {
      expect(decode(codec, damaged, largest)).not.toBe('decompressed_too_large');
      expect(decode(codec, damaged, largest + 1)).toBe('decompressed_too_large');
    }
  });

  it('in T1 is restored with its defaults, which the length of the abbreviated text does not count', () => {
    const request = '{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}';
    const body = createCoder().encode(request, { algorithm: 'TOKEN' });
    const content = decoded(createCoder(), body);
    expect(JSON.parse(content)).toMatchObject({ model: 'gpt-4o', temperature: 1, stop: null });
    expect(body.originalLength).toBe(content.length);
    expect(content.length - request.length).toBe(DEFAULTS_LENGTH);
    expect(decode(body.codec, body.bytes, request.length)).toBe('none');
    expect(decode(body.codec, body.bytes, request.length - 1)).toBe('decompressed_too_large');
  });

  it('in a codec that is not decoded here is unsupported', () => {
    expect(decode(BodyCodec.CONTEXT, Uint8Array.of(1), 1)).toBe('unsupported');
  });

  it('without coding is returned as it is', () => {
    const bytes = Uint8Array.of(1, 2);
    for (const codec of [BodyCodec.PLAIN, BodyCodec.AVP])
      expect(createCoder().decode(received({ codec, bytes } as CodedBody))).toBe(bytes);
  });
});

it('a tensor is restored, and limited as a transfer', () => {
  const bytes = encodeAvp({
    data: Float32Array.of(1, 2, 3, 4),
    shape: [2, 2],
    dtype: 'float32',
    payloadType: 'hidden_state',
  });
  const body = { codec: BodyCodec.AVP, bytes } as CodedBody;
  const back = createCoder({ limits: resolveLimits({ maxMessageSize: 1 }) }).tensor(received(body));
  expect(back).toMatchObject({ shape: [2, 2] });
  expect([...new Float32Array(back.data.slice().buffer)]).toEqual([1, 2, 3, 4]);
  const small = createCoder({ limits: resolveLimits({ maxTransferSize: 15 }) });
  expect(errorCode(() => small.tensor(received(body)))).toMatch(/too_large$/);
});

it('JSON is parsed within the limits of the session', () => {
  const coder = createCoder({ limits: resolveLimits({ maxJsonDepth: 1 }) });
  expect(coder.parse('[1]', { paid: 3 })).toEqual([1]);
  expect(errorCode(() => coder.parse('[[1]]', { paid: 5 }))).toBe('json_too_deep');
});

describe('a body that its codec makes longer than the peer accepts', () => {
  const maxMessageSize = 100_000;
  const limits = resolveLimits({ maxMessageSize });
  const contents = {
    'text that is stored, as it expands too much': 'x'.repeat(maxMessageSize),
    'text with two bytes for each token': '\0'.repeat(maxMessageSize),
    'bytes that Brotli cannot make smaller': Uint8Array.from(
      { length: maxMessageSize },
      (_, i) => (i * i * 31) % 251,
    ),
  };
  const algorithms = ['auto', Algorithm.BROTLI, Algorithm.TOKEN_NATIVE, Algorithm.NONE] as const;

  it.each(Object.entries(contents))('%s goes uncoded, and one byte more does not', async (_, content) => {
    const coder = createCoder({ limits, maxMessageSize });
    const isText = typeof content === 'string';
    const bytes = isText ? Buffer.from(content) : content;
    for (const algorithm of algorithms.filter((name) => isText || name !== Algorithm.TOKEN_NATIVE)) {
      const all = [coder.encode(content, { algorithm }), coder.encode(bytes, { algorithm })];
      if (isText) all.push(await coder.encodeInSlices(content, { algorithm }));
      for (const coded of all) {
        expect(Math.max(coded.bytes.length, coded.originalLength)).toBeLessThanOrEqual(maxMessageSize);
        expect(Buffer.compare(coder.decode(received(coded)), bytes)).toBe(0);
      }
    }
    const longer = coder.encode(Buffer.concat([bytes, Uint8Array.of(1)]), { algorithm: Algorithm.BROTLI });
    expect(longer.originalLength).toBe(maxMessageSize + 1);
  });

  it('stays coded if nothing else was agreed, and if plain content could be taken for another codec', () => {
    const content = 'x'.repeat(maxMessageSize);
    for (const change of [{ algorithms: [Algorithm.BROTLI] }, { isPrefixed: true }]) {
      const coder = createCoder({ limits, maxMessageSize, ...change });
      expect(coder.encode(content, { algorithm: Algorithm.BROTLI }).codec).toBe(BodyCodec.BROTLI);
    }
    const short = createCoder({ limits, maxMessageSize }).encode('xyz', { algorithm: Algorithm.BROTLI });
    expect(short.codec).toBe(BodyCodec.BROTLI);
  });
});
