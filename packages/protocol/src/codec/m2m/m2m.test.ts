import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { fromHex } from '../../base/testing/bytes.js';
import { checkHeaderIsTrue } from '../../testing/m2m-header.js';
import {
  defined,
  LARGE,
  maybe,
  PREFIX,
  request,
  response,
  SMALL,
  security,
} from '../../testing/m2m-shapes.js';
import { loadOn, type UnderTest } from '../../testing/on-platform.js';
import type { CostTable } from './cost.js';
import { RequestFlag, ResponseFlag } from './fields.js';

describe.each(['node', 'web'] as const)('M2M v1 on %s', (name) => {
  let on: UnderTest;
  beforeAll(async () => {
    on = await loadOn(name);
  });

  describe('round trip', () => {
    it('keeps every request with every option, with a correct header', () => {
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

    it('keeps every response, with its usage in the header', () => {
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

    it('distinguishes request and response by their shape', () => {
      fc.assert(
        fc.property(fc.oneof(request, response), (value) => {
          const schema = 'messages' in value ? 'request' : 'response';
          expect(on.readM2MHeader(on.encodeM2M(value)).schema).toBe(schema);
        }),
      );
    });

    it('sends the given text, without passing it through JSON.stringify', () => {
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
      expect(on.codeOf(() => message.value())).toBe('bad_json');
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

    it.each([65_535, 65_536, 65_537, 100_000])(
      'keeps %i characters of one, two and three bytes',
      (length) => {
        for (const unit of ['x', 'é', '日']) {
          const json = JSON.stringify([unit.repeat(length - 4)]);
          expect(on.decodeM2M(on.encodeM2M(json)).json === json).toBe(true);
        }
      },
    );

    it('does not reuse the memory of a frame that it has returned', () => {
      const raw = on.encodeM2M(SMALL);
      const before = raw.slice();
      on.encodeM2M(LARGE);
      on.encodeM2M('{"other":"content"}');
      expect(raw).toEqual(before);
    });
  });

  describe('content', () => {
    it('with half a surrogate pair is refused, as text and as escape', () => {
      for (const json of ['{"a":"\ud800"}', '{"a":"\\ud800"}', '{"\\udc00":1}', '{"model":"\\ud83d"}']) {
        expect(on.codeOf(() => on.encodeM2M(json))).toBe('lone_surrogate');
      }
      expect(on.codeOf(() => on.encodeM2M({ a: '\ud800' }))).toBe('lone_surrogate');
      expect(on.codeOf(() => on.encodeM2M('\udc00', { schema: 'custom' }))).toBe('lone_surrogate');
      expect(on.codeOf(() => on.encodeM2M('{"a":"\\ud83d\\ude00"}'))).toBe('no error');
    });

    it('that is not UTF-8 is refused, even if the CRC matches', () => {
      const frame = on.encodeM2M('"xx"');
      const at = frame.length - 4;
      frame.set(fromHex('22ff2822'), at);
      new DataView(frame.buffer).setUint32(at - 4, on.platform.crc32(frame.subarray(at)), true);
      expect(on.codeOf(() => on.decodeM2M(frame))).toBe('bad_utf8');
    });

    it('without a JSON form is refused', () => {
      const cycle: Record<string, unknown> = {};
      cycle.self = cycle;
      expect(on.codeOf(() => on.encodeM2M(cycle))).toBe('invalid_argument');
      expect(on.codeOf(() => on.encodeM2M((() => 1) as object))).toBe('invalid_argument');
      for (const json of ['', '{', '{"a":1,}', '\ufeff{}', 'undefined', '"\n"']) {
        expect(on.codeOf(() => on.encodeM2M(json))).toBe('bad_json');
        expect(on.codeOf(() => on.encodeM2M(json, { schema: 'stream' }))).toBe('bad_json');
      }
    });

    it('that the header cannot describe is refused', () => {
      const user = { role: 'user', content: 'x' };
      for (const role of ['function', 7, null, undefined, 'User']) {
        const value = { model: 'm', messages: [user, { ...user, role }] };
        expect(on.codeOf(() => on.encodeM2M(value))).toBe('unrepresentable');
      }
      expect(on.codeOf(() => on.encodeM2M({ model: 'm', messages: ['text'] }))).toBe('unrepresentable');
      expect(on.codeOf(() => on.encodeM2M({ model: 'é'.repeat(127), messages: [] }))).toBe('no error');
      expect(on.codeOf(() => on.encodeM2M({ model: 'é'.repeat(128), messages: [] }))).toBe('unrepresentable');
      expect(on.codeOf(() => on.encodeM2M({ id: 'x'.repeat(255), choices: [] }))).toBe('no error');
      expect(on.codeOf(() => on.encodeM2M({ id: 'x'.repeat(256), choices: [] }))).toBe('unrepresentable');
      const usage = (prompt_tokens: number) => ({ choices: [], usage: { prompt_tokens } });
      expect(on.codeOf(() => on.encodeM2M(usage(2 ** 32 - 1)))).toBe('no error');
      expect(on.codeOf(() => on.encodeM2M(usage(2 ** 32)))).toBe('unrepresentable');
      const many = (length: number) => ({ model: 'm', messages: new Array(length).fill({ role: 'user' }) });
      const limits = { maxArrayLength: Infinity, maxJsonValues: Infinity };
      expect(on.codeOf(() => on.encodeM2M(many(262_000), { limits }))).toBe('no error');
      expect(on.codeOf(() => on.encodeM2M(many(263_000), { limits }))).toBe('unrepresentable');
    });

    it('with names of Object.prototype has only its own fields', () => {
      const frame = on.encodeM2M('{"__proto__":{"tools":[],"model":"x","messages":[]},"constructor":1}');
      expect(on.readM2MHeader(frame)).toMatchObject({ schema: 'request', model: '', flags: 0 });
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

    it('follows the given table, by the longest matching name', () => {
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

    it('is refused if the table gives none', () => {
      for (const input of [Number.NaN, -1e9, Infinity]) {
        const bad = { ...costTable, fallback: { input, output: 0 } };
        const value = { model: 'x', messages: [{ role: 'user', content }] };
        expect(on.codeOf(() => on.encodeM2M(value, { costTable: bad }))).toBe('invalid_option');
      }
    });
  });

  it('sets flags by presence', () => {
    const flagsOf = (value: object) => on.readM2MHeader(on.encodeM2M(value)).flags;
    expect(flagsOf({ model: 'm', messages: [], stop: null, stream: false })).toBe(RequestFlag.HAS_STOP);
    expect(flagsOf({ model: 'm', messages: [], stream: true })).toBe(RequestFlag.STREAM_REQUESTED);
    expect(flagsOf({ model: 'm', messages: [], max_tokens: null })).toBe(0);
    expect(flagsOf({ choices: [{ message: { tool_calls: null, refusal: null } }] })).toBe(
      ResponseFlag.HAS_TOOL_CALLS,
    );
  });
});
