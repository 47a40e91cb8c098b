import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { checkHeaderIsTrue, fromHex, toHex } from '../testing/m2m-vectors.js';
import { loadOn, type UnderTest } from '../testing/on-platform.js';
import type { CostTable } from './m2m-cost.js';
import { RequestFlag, ResponseFlag } from './m2m-fields.js';
import type { M2MSecurity } from './m2m-security.js';

const key = Uint8Array.from({ length: 32 }, (_, i) => i);
const HMAC: M2MSecurity = { mode: 'HMAC', key };
const AEAD: M2MSecurity = { mode: 'AEAD', key };
const PREFIX = 7;
const SMALL = '{"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}],"max_tokens":50}';
const LARGE = JSON.stringify({
  model: 'gpt-4o',
  messages: [{ role: 'user', content: 'The quick brown fox jumps over the lazy dog. '.repeat(4) }],
});

// --- shapes of real traffic, with every optional field there or not

const text = fc.string({ unit: 'grapheme', maxLength: 60 });
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const count = fc.oneof(fc.nat(5000), fc.constantFrom(0, 127, 128, 2 ** 32 - 1));
const part = fc.oneof(
  fc.record({ type: fc.constant('text'), text }),
  fc.record({ type: fc.constant('image_url'), image_url: fc.record({ url: text }) }),
);
const message = fc.record({
  role: fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool'),
  content: fc.oneof(text, fc.array(part, { maxLength: 3 }), fc.constant(null)),
});
const request = fc.record(
  {
    model: fc.oneof(fc.constantFrom('gpt-4o', 'o3-mini', 'claude-3-opus-20240229', 'm'), text),
    messages: fc.array(message, { maxLength: 12 }),
    max_tokens: fc.oneof(count, fc.constantFrom(null, -1, 1.5, 2 ** 32, '5')),
    max_completion_tokens: count,
    ...Object.fromEntries(
      'tools tool_choice functions function_call stream response_format reasoning_effort service_tier seed logprobs user temperature top_p stop'
        .split(' ')
        .map((name) => [name, fc.constantFrom<unknown>(null, true, false, 1, 'x', [], {})]),
    ),
  },
  { requiredKeys: ['model', 'messages'] },
);
const response = fc.record(
  {
    id: fc.oneof(text, fc.constant('chatcmpl-1')),
    model: text,
    choices: fc.array(
      fc.record(
        {
          message: fc.record({ content: text, refusal: maybe(text), tool_calls: maybe(fc.constant([])) }),
          finish_reason: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter', 'other', null),
        },
        { requiredKeys: [] },
      ),
      { maxLength: 3 },
    ),
    usage: fc.record(
      {
        prompt_tokens: count,
        completion_tokens: count,
        prompt_tokens_details: fc.record({ cached_tokens: count }, { requiredKeys: [] }),
        completion_tokens_details: fc.record({ reasoning_tokens: count }, { requiredKeys: [] }),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: ['choices'] },
);
const security = maybe(fc.constantFrom(HMAC, AEAD));
const defined = <T extends object>(options: T) =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };

describe.each(['node', 'web'] as const)('M2M v1 on %s', (name) => {
  let on: UnderTest;
  beforeAll(async () => {
    on = await loadOn(name);
  });
  const codeOf = (run: () => unknown): string => {
    try {
      run();
    } catch (error) {
      if (on.isProtocolError(error)) return error.code;
      throw error;
    }
    return 'no error';
  };

  describe('round trip', () => {
    it('keeps every request with every option, and its header tells the truth', () => {
      const schema = maybe(fc.constantFrom('request', 'embedding-request', 'stream'));
      fc.assert(
        fc.property(request, fc.nat(2), schema, security, maybe(fc.boolean()), (value, indent, ...chosen) => {
          const [schema, security, compress] = chosen;
          const json = JSON.stringify(value, null, indent);
          const options = defined({ schema, security, compress });
          const policy = defined({ security });
          const frame = on.encodeM2M(json, options);
          const { header, ...decoded } = on.decodeM2M(frame, policy);
          expect(decoded.json).toBe(json);
          expect(Buffer.from(decoded.bytes).toString()).toBe(json);
          expect(decoded.value()).toEqual(JSON.parse(json));
          expect(header.schema).toBe(schema ?? 'request');
          expect(header.security).toBe(security?.mode ?? 'NONE');
          expect(header.compressed).toBe(compress ?? decoded.bytes.length >= 100);
          checkHeaderIsTrue(header, JSON.parse(json));

          expect(on.readM2MHeader(frame)).toEqual(header);
          expect(on.decodeM2MBody(frame.subarray(PREFIX), policy).json).toBe(json);
          expect(on.readM2MBodyHeader(frame.subarray(PREFIX))).toEqual(header);
          const wire = on.encodeM2MText(json, options);
          expect(on.decodeM2M(wire, policy).json).toBe(json);
          expect(on.readM2MHeader(wire)).toEqual(header);
          expect(on.decodeM2MBody(on.encodeM2MBody(value, options), policy).json).toBe(JSON.stringify(value));
        }),
      );
    });

    it('keeps every response, and its header has the usage', () => {
      const schema = fc.constantFrom('response', 'embedding-response', 'error');
      fc.assert(
        fc.property(response, schema, security, (value, schema, security) => {
          const json = JSON.stringify(value);
          const frame = on.encodeM2M(json, { schema, ...defined({ security }) });
          const decoded = on.decodeM2M(frame, defined({ security }));
          expect(decoded.json).toBe(json);
          checkHeaderIsTrue(decoded.header, value);
          const usage = value.usage ?? {};
          const finish = value.choices[0]?.finish_reason ?? 'unknown';
          expect(decoded.header).toMatchObject({
            schema,
            promptTokens: usage.prompt_tokens ?? 0,
            completionTokens: usage.completion_tokens ?? 0,
            finishReason: finish === 'other' ? 'unknown' : finish,
          });
          expect(decoded.header).toEqual(on.readM2MHeader(frame));
          const { cachedTokens, reasoningTokens, cost } = decoded.header as {
            cachedTokens?: number;
            reasoningTokens?: number;
            cost?: number;
          };
          expect(cachedTokens ?? 0).toBe(usage.prompt_tokens_details?.cached_tokens ?? 0);
          expect(reasoningTokens ?? 0).toBe(usage.completion_tokens_details?.reasoning_tokens ?? 0);
          expect(cost !== undefined).toBe('usage' in JSON.parse(json));
        }),
      );
    });

    it('tells request and response apart by their shape', () => {
      fc.assert(
        fc.property(fc.oneof(request, response), (value) => {
          const schema = 'messages' in value ? 'request' : 'response';
          expect(on.readM2MHeader(on.encodeM2M(value)).schema).toBe(schema);
        }),
      );
    });

    it('sends the text that was given, not what JSON.stringify makes of it', () => {
      for (const json of ['{ "a" : 1.0, "a": 1e2,\n"b":"\\u00e9\\/" }', ' 42 ', '"x"', '[]', 'null']) {
        expect(on.decodeM2M(on.encodeM2M(json)).json).toBe(json);
      }
    });

    it('carries any text under the custom schema, and parses it only on demand', () => {
      fc.assert(
        fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), security, (any, security) => {
          const frame = on.encodeM2M(any, { schema: 'custom', ...defined({ security }) });
          expect(on.decodeM2M(frame, defined({ security })).json).toBe(any);
        }),
      );
      const message = on.decodeM2M(on.encodeM2M('not json', { schema: 'custom' }));
      expect(codeOf(() => message.value())).toBe('bad_json');
    });

    it('reads a frame in the middle of a larger buffer, and a Node Buffer, without changing either', () => {
      const frame = on.encodeM2M(SMALL);
      const around = new Uint8Array(frame.length + 20).fill(0xaa);
      around.set(frame, 10);
      const view = around.subarray(10, 10 + frame.length);
      expect(on.decodeM2M(view).json).toBe(SMALL);
      expect(on.decodeM2M(Buffer.from(view)).bytes.constructor).toBe(Uint8Array);
      expect(view).toEqual(frame);
    });

    it('does not reuse the memory of a frame that was handed out', () => {
      const raw = on.encodeM2M(SMALL);
      const before = raw.slice();
      on.encodeM2M(LARGE);
      on.encodeM2M('{"other":"content"}');
      expect(raw).toEqual(before);
    });
  });

  describe('security', () => {
    it('takes exactly the mode that is demanded', () => {
      for (const sent of [undefined, HMAC, AEAD]) {
        const frame = on.encodeM2M(SMALL, defined({ security: sent }));
        for (const demanded of [undefined, HMAC, AEAD]) {
          const code = codeOf(() => on.decodeM2M(frame, defined({ security: demanded })));
          expect(code).toBe(sent === demanded ? 'no error' : 'security_required');
        }
      }
    });

    it.each([
      ['HMAC', HMAC, SMALL],
      ['HMAC', HMAC, LARGE],
      ['AEAD', AEAD, SMALL],
      ['AEAD', AEAD, LARGE],
    ] as const)('%s: every single flipped bit and every truncation is refused', (_, security, json) => {
      const frame = on.encodeM2M(json, { security });
      for (let bit = 0; bit < frame.length * 8; bit++) {
        const at = bit >> 3;
        const flipped = frame.with(at, frame[at]! ^ (1 << (bit & 7)));
        expect(
          codeOf(() => on.decodeM2M(flipped, { security })),
          `bit ${bit}`,
        ).not.toBe('no error');
      }
      for (let length = 0; length < frame.length; length++) {
        const cut = frame.subarray(0, length);
        expect(
          codeOf(() => on.decodeM2M(cut, { security })),
          `length ${length}`,
        ).not.toBe('no error');
      }
      expect(codeOf(() => on.decodeM2M(Buffer.concat([frame, key.subarray(0, 1)]), { security }))).toBe(
        'authentication_failed',
      );
      expect(on.decodeM2M(frame, { security }).json).toBe(json);
    });

    it('refuses another key as it refuses damage', () => {
      for (const security of [HMAC, AEAD]) {
        const frame = on.encodeM2M(SMALL, { security });
        const other = { ...security, key: key.with(0, 1) };
        expect(codeOf(() => on.decodeM2M(frame, { security: other }))).toBe('authentication_failed');
      }
    });

    it('takes keys of the right length only', () => {
      const lengths = [
        ['HMAC', 15, 'invalid_key'],
        ['HMAC', 16, 'no error'],
        ['HMAC', 100, 'no error'],
        ['AEAD', 31, 'invalid_key'],
        ['AEAD', 32, 'no error'],
        ['AEAD', 33, 'invalid_key'],
      ] as const;
      for (const [mode, length, code] of lengths) {
        const security = { mode, key: new Uint8Array(length) };
        expect(codeOf(() => on.encodeM2M(SMALL, { security }))).toBe(code);
        const frame = on.encodeM2M(SMALL, { security: mode === 'HMAC' ? HMAC : AEAD });
        expect(codeOf(() => on.decodeM2M(frame, { security }))).toBe(
          code === 'no error' ? 'authentication_failed' : code,
        );
      }
      const unknown = { mode: 'NONE', key } as unknown as M2MSecurity;
      expect(codeOf(() => on.encodeM2M(SMALL, { security: unknown }))).toBe('invalid_option');
      expect(codeOf(() => on.decodeM2M(on.encodeM2M(SMALL), { security: unknown }))).toBe('invalid_option');
    });

    it('uses a fresh nonce for each frame, and the one that a test gives', () => {
      const nonces = Array.from({ length: 100 }, () => {
        const frame = on.encodeM2M(SMALL, { security: AEAD });
        const at = PREFIX + on.readM2MHeader(frame).headerLength;
        return toHex(frame.subarray(at, at + 12));
      });
      expect(new Set(nonces).size).toBe(100);
      const nonce = new Uint8Array(12).fill(7);
      const [a, b] = [1, 2].map(() => on.encodeM2M(SMALL, { security: AEAD, nonce }));
      expect(a).toEqual(b);
      const short = nonce.subarray(1);
      expect(codeOf(() => on.encodeM2M(SMALL, { security: AEAD, nonce: short }))).toBe('invalid_argument');
    });
  });

  describe('damaged frames', () => {
    const attempts = [
      (frame: Uint8Array) => on.decodeM2M(frame),
      (frame: Uint8Array) => on.readM2MHeader(frame),
      (frame: Uint8Array) => on.decodeM2MBody(frame.subarray(PREFIX)),
    ];
    /** Only a ProtocolError may come out; `codeOf` throws on anything else. */
    const survive = (frame: Uint8Array) => attempts.map((attempt) => codeOf(() => attempt(frame)));

    it('are refused at every truncation', () => {
      for (const json of [SMALL, LARGE, '{"choices":[],"usage":{}}']) {
        const frame = on.encodeM2M(json);
        for (let length = 0; length < frame.length; length++) {
          expect(survive(frame.subarray(0, length))[0], `length ${length}`).not.toBe('no error');
        }
      }
    });

    it('are refused with length fields at their extremes', () => {
      const frame = on.encodeM2M(SMALL);
      const payloadLength = PREFIX + on.readM2MHeader(frame).headerLength;
      const put = (at: number, hex: string) => {
        const copy = frame.slice();
        copy.set(fromHex(hex), at);
        return survive(copy)[0];
      };
      for (const hex of ['0000', '0100', '1300', '1400', '2200', '2400', 'ff7f', 'ffff']) {
        expect(put(PREFIX, hex), `header_len ${hex}`).not.toBe('no error');
      }
      for (const hex of ['00000000', '01000000', '4d000000', '4f000000', 'ffffff7f', 'ffffffff']) {
        expect(put(payloadLength, hex), `payload_len ${hex}`).not.toBe('no error');
      }
      // model length, then msg_count as huge and overlong varints.
      expect(put(PREFIX + 20, 'ff')).not.toBe('no error');
      for (const hex of ['ff', 'ffffffff0f', 'ffffffffffffff7f', 'ffffffffffffffffff', '8100']) {
        expect(put(PREFIX + 27, hex), `msg_count ${hex}`).not.toBe('no error');
      }
    });

    it('raise nothing but ProtocolErrors, whatever was changed, and leave the codec working', () => {
      const bases = [SMALL, LARGE, '{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":3}}'].map(
        (json) => on.encodeM2M(json),
      );
      const edits = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 });
      fc.assert(
        fc.property(
          fc.constantFrom(...bases),
          fc.constantFrom(...bases),
          fc.nat(),
          fc.nat(),
          edits,
          (a, b, cut, at, edits) => {
            // Splice the head of one frame to the tail of another, then change bytes behind the prefix.
            const frame = new Uint8Array(
              Buffer.concat([a.subarray(0, PREFIX + (cut % a.length)), b.subarray(at % b.length)]),
            );
            for (const [place, value] of edits) {
              if (frame.length > PREFIX) frame[PREFIX + (place % (frame.length - PREFIX))] = value;
            }
            survive(frame);
            survive(Uint8Array.from([...a.subarray(0, PREFIX), ...frame]));
          },
        ),
        { numRuns: 2000 },
      );
      expect(on.decodeM2M(on.encodeM2M(LARGE)).json).toBe(LARGE);
    });

    it('in text raise nothing but ProtocolErrors, and never give other content', () => {
      const wire = on.encodeM2MText(LARGE);
      fc.assert(
        fc.property(
          fc.nat(wire.length),
          fc.string({ unit: 'binary', maxLength: 5 }),
          fc.nat(5),
          (at, insert, cut) => {
            const changed = wire.slice(0, at) + insert + wire.slice(at + cut);
            codeOf(() => on.readM2MHeader(changed));
            // Without a key only the payload is checked: a changed header may be a good one as well.
            let json = LARGE;
            codeOf(() => {
              json = on.decodeM2M(changed).json;
            });
            expect(json).toBe(LARGE);
          },
        ),
        { numRuns: 1000 },
      );
    });

    it('have their own codes', () => {
      const frame = on.encodeM2M(SMALL);
      const codeWith = (at: number, value: number) => codeOf(() => on.decodeM2M(frame.with(at, value)));
      expect(codeWith(0, 0x24)).toBe('unknown_prefix');
      expect(codeWith(PREFIX + 2, 0x77)).toBe('unknown_schema');
      expect(codeWith(PREFIX + 3, 0x07)).toBe('unknown_security_mode');
      expect(codeWith(PREFIX + 5, 0x80)).toBe('bad_header'); // a reserved flag
      expect(codeWith(PREFIX + 7, 0x02)).toBe('bad_header'); // HAS_EXTENSIONS
      expect(codeWith(PREFIX + 19, 0x01)).toBe('bad_header'); // a reserved byte
      expect(codeWith(PREFIX + 28, 0x05)).toBe('bad_header'); // bits behind the last role
      expect(codeWith(PREFIX + 34, 0xff)).toBe('bad_header'); // the cost's sign
      expect(codeWith(frame.length - 1, 0x20)).toBe('bad_checksum');
      expect(codeOf(() => on.decodeM2M(Uint8Array.from([...frame, 0])))).toBe('trailing_bytes');
      expect(codeOf(() => on.decodeM2M('#M2M|2|'))).toBe('unknown_prefix');
      expect(codeOf(() => on.decodeM2M('#M2M|1|===='))).toBe('bad_base64');
      expect(codeOf(() => on.readM2MHeader('#M2M|1|'))).toBe('truncated');
    });
  });

  describe('content', () => {
    it('with half a surrogate pair is refused, as text and as escape', () => {
      for (const json of ['{"a":"\ud800"}', '{"a":"\\ud800"}', '{"\\udc00":1}', '{"model":"\\ud83d"}']) {
        expect(codeOf(() => on.encodeM2M(json))).toBe('lone_surrogate');
      }
      expect(codeOf(() => on.encodeM2M({ a: '\ud800' }))).toBe('lone_surrogate');
      expect(codeOf(() => on.encodeM2M('\udc00', { schema: 'custom' }))).toBe('lone_surrogate');
      expect(codeOf(() => on.encodeM2M('{"a":"\\ud83d\\ude00"}'))).toBe('no error');
    });

    it('that is not UTF-8 is refused, with a CRC that fits', () => {
      const frame = on.encodeM2M('"xx"');
      const at = frame.length - 4;
      frame.set(fromHex('22ff2822'), at);
      new DataView(frame.buffer).setUint32(at - 4, on.platform.crc32(frame.subarray(at)), true);
      expect(codeOf(() => on.decodeM2M(frame))).toBe('bad_utf8');
    });

    it('that has no JSON is refused', () => {
      const cycle: Record<string, unknown> = {};
      cycle.self = cycle;
      expect(codeOf(() => on.encodeM2M(cycle))).toBe('invalid_argument');
      expect(codeOf(() => on.encodeM2M((() => 1) as object))).toBe('invalid_argument');
      for (const json of ['', '{', '{"a":1,}', '\ufeff{}', 'undefined', '"\n"']) {
        expect(codeOf(() => on.encodeM2M(json))).toBe('bad_json');
        expect(codeOf(() => on.encodeM2M(json, { schema: 'stream' }))).toBe('bad_json');
      }
    });

    it('that the header cannot state truly is refused', () => {
      const user = { role: 'user', content: 'x' };
      for (const role of ['function', 7, null, undefined, 'User']) {
        const value = { model: 'm', messages: [user, { ...user, role }] };
        expect(codeOf(() => on.encodeM2M(value))).toBe('unrepresentable');
      }
      expect(codeOf(() => on.encodeM2M({ model: 'm', messages: ['text'] }))).toBe('unrepresentable');
      expect(codeOf(() => on.encodeM2M({ model: 'é'.repeat(127), messages: [] }))).toBe('no error');
      expect(codeOf(() => on.encodeM2M({ model: 'é'.repeat(128), messages: [] }))).toBe('unrepresentable');
      expect(codeOf(() => on.encodeM2M({ id: 'x'.repeat(255), choices: [] }))).toBe('no error');
      expect(codeOf(() => on.encodeM2M({ id: 'x'.repeat(256), choices: [] }))).toBe('unrepresentable');
      const usage = (prompt_tokens: number) => ({ choices: [], usage: { prompt_tokens } });
      expect(codeOf(() => on.encodeM2M(usage(2 ** 32 - 1)))).toBe('no error');
      expect(codeOf(() => on.encodeM2M(usage(2 ** 32)))).toBe('unrepresentable');
      const many = (length: number) => ({ model: 'm', messages: new Array(length).fill({ role: 'user' }) });
      const limits = { maxArrayLength: Infinity };
      expect(codeOf(() => on.encodeM2M(many(262_000), { limits }))).toBe('no error');
      expect(codeOf(() => on.encodeM2M(many(263_000), { limits }))).toBe('unrepresentable');
    });

    it('that names fields of Object.prototype has only its own', () => {
      const frame = on.encodeM2M('{"__proto__":{"tools":[],"model":"x","messages":[]},"constructor":1}');
      expect(on.readM2MHeader(frame)).toMatchObject({ schema: 'request', model: '', flags: 0 });
    });
  });

  describe('limits', () => {
    const options = (limits: Record<string, number>) => ({ limits });

    it('bound the message before and after compression', () => {
      const json = JSON.stringify({ model: 'm', messages: [], user: 'x'.repeat(1000) });
      const frame = on.encodeM2M(json);
      expect(frame.length).toBeLessThan(json.length / 2);
      const at = (maxMessageSize: number) => [
        codeOf(() => on.encodeM2M(json, options({ maxMessageSize }))),
        codeOf(() => on.decodeM2M(frame, options({ maxMessageSize }))),
      ];
      expect(at(json.length)).toEqual(['no error', 'no error']);
      expect(at(json.length - 1)).toEqual(['message_too_large', 'decompressed_too_large']);
      expect(at(frame.length)[1]).toBe('decompressed_too_large');
      expect(at(frame.length - 1)[1]).toBe('message_too_large');
    });

    it('count bytes, not characters, and the frame, not only its content', () => {
      const json = JSON.stringify({ user: 'é'.repeat(40) });
      const bytes = Buffer.byteLength(json);
      expect(codeOf(() => on.encodeM2M(json, options({ maxMessageSize: bytes - 1 })))).toBe(
        'message_too_large',
      );
      const frame = on.encodeM2M(json);
      const wire = on.encodeM2MText(json);
      for (const [size, code] of [
        [0, 'no error'],
        [-1, 'message_too_large'],
      ] as const) {
        const forFrame = options({ maxMessageSize: frame.length + size });
        expect(codeOf(() => on.encodeM2M(json, forFrame))).toBe(code);
        expect(codeOf(() => on.decodeM2M(frame, forFrame))).toBe(code);
        const forBody = options({ maxMessageSize: frame.length - PREFIX + size });
        expect(codeOf(() => on.encodeM2MBody(json, forBody))).toBe(code);
        expect(codeOf(() => on.decodeM2MBody(frame.subarray(PREFIX), forBody))).toBe(code);
        const forText = options({ maxMessageSize: wire.length + size });
        expect(codeOf(() => on.encodeM2MText(json, forText))).toBe(code);
        expect(codeOf(() => on.decodeM2M(wire, forText))).toBe(code);
      }
    });

    it('bound depth, strings and arrays in both directions', () => {
      const cases = [
        ['[[[1]]]', 'maxJsonDepth', 3, 'json_too_deep'],
        ['{"a":"12345"}', 'maxStringLength', 5, 'string_too_long'],
        ['{"a":[1,2,3,4]}', 'maxArrayLength', 4, 'array_too_long'],
      ] as const;
      for (const [json, limit, n, code] of cases) {
        const frame = on.encodeM2M(json);
        for (const [value, expected] of [
          [n, 'no error'],
          [n - 1, code],
        ] as const) {
          const limits = options({ [limit]: value });
          expect(codeOf(() => on.encodeM2M(json, limits))).toBe(expected);
          expect(codeOf(() => on.decodeM2M(frame, limits))).toBe(expected);
        }
      }
    });

    it('are the documented ones by default', () => {
      const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
      const list = (length: number) => JSON.stringify(new Array(length).fill(0));
      expect(codeOf(() => on.encodeM2M(nested(32)))).toBe('no error');
      expect(codeOf(() => on.encodeM2M(nested(33)))).toBe('json_too_deep');
      expect(codeOf(() => on.encodeM2M(list(10_000)))).toBe('no error');
      expect(codeOf(() => on.encodeM2M(list(10_001)))).toBe('array_too_long');
      const unbounded = options({ maxJsonDepth: Infinity });
      expect(codeOf(() => on.decodeM2M(on.encodeM2M(nested(33), unbounded)))).toBe('json_too_deep');
    });

    it('of unknown name are refused', () => {
      const limits = { maxMesageSize: 1 } as never;
      expect(codeOf(() => on.encodeM2M(SMALL, { limits }))).toBe('invalid_option');
      expect(codeOf(() => on.decodeM2M(on.encodeM2M(SMALL), { limits }))).toBe('invalid_option');
    });
  });

  describe('cost', () => {
    const costTable: CostTable = {
      models: { acme: { input: 10, output: 20 }, 'acme-mini': { input: 1, output: 2 } },
      fallback: { input: 0, output: 0 },
      completionTokens: 1000,
    };
    const costOf = (value: object) => {
      const header = on.readM2MHeader(on.encodeM2M(value, { costTable }));
      return 'model' in header ? header.cost : undefined;
    };
    const content = 'x'.repeat(4000);

    it('follows the table that is given, by the longest name that fits', () => {
      const messages = [{ role: 'user', content }];
      expect(costOf({ model: 'acme', messages })).toBeCloseTo(0.3);
      expect(costOf({ model: 'ACME-large', messages })).toBeCloseTo(0.3);
      expect(costOf({ model: 'acme-mini-2', messages })).toBeCloseTo(0.03);
      expect(costOf({ model: 'acme', messages, max_tokens: 0 })).toBeCloseTo(0.1);
      expect(costOf({ model: 'other', messages })).toBe(0);
      const usage = { prompt_tokens: 1000, completion_tokens: 500 };
      expect(costOf({ model: 'acme', choices: [], usage })).toBeCloseTo(0.2);
      expect(costOf({ model: 'acme', choices: [] })).toBeUndefined();
    });

    it('is refused where the table gives none', () => {
      for (const input of [Number.NaN, -1e9, Infinity]) {
        const bad = { ...costTable, fallback: { input, output: 0 } };
        const value = { model: 'x', messages: [{ role: 'user', content }] };
        expect(codeOf(() => on.encodeM2M(value, { costTable: bad }))).toBe('invalid_option');
      }
    });
  });

  it('states flags by presence', () => {
    const flagsOf = (value: object) => on.readM2MHeader(on.encodeM2M(value)).flags;
    expect(flagsOf({ model: 'm', messages: [], stop: null, stream: false })).toBe(RequestFlag.HAS_STOP);
    expect(flagsOf({ model: 'm', messages: [], stream: true })).toBe(RequestFlag.STREAM_REQUESTED);
    expect(flagsOf({ model: 'm', messages: [], max_tokens: null })).toBe(0);
    expect(flagsOf({ choices: [{ message: { tool_calls: null, refusal: null } }] })).toBe(
      ResponseFlag.HAS_TOOL_CALLS,
    );
  });
});
