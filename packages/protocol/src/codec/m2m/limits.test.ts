import { beforeAll, describe, expect, it } from 'vitest';
import { PREFIX, SMALL } from '../../testing/m2m-shapes.js';
import { loadOn, type UnderTest } from '../../testing/on-platform.js';

describe.each(['node', 'web'] as const)('M2M v1 limits on %s', (name) => {
  let on: UnderTest;
  beforeAll(async () => {
    on = await loadOn(name);
  });

  const options = (limits: Record<string, number>) => ({ limits });

  it('bound the message before and after compression', () => {
    const json = JSON.stringify({ model: 'm', messages: [], user: 'x'.repeat(1000) });
    const frame = on.encodeM2M(json);
    expect(frame.length).toBeLessThan(json.length / 2);
    const at = (maxMessageSize: number) => [
      on.codeOf(() => on.encodeM2M(json, options({ maxMessageSize }))),
      on.codeOf(() => on.decodeM2M(frame, options({ maxMessageSize }))),
    ];
    expect(at(json.length)).toEqual(['no error', 'no error']);
    expect(at(json.length - 1)).toEqual(['message_too_large', 'decompressed_too_large']);
    expect(at(frame.length)[1]).toBe('decompressed_too_large');
    expect(at(frame.length - 1)[1]).toBe('message_too_large');
  });

  it('count bytes, not characters, and apply to the frame, not only to its content', () => {
    const json = JSON.stringify({ user: 'é'.repeat(40) });
    const bytes = Buffer.byteLength(json);
    expect(on.codeOf(() => on.encodeM2M(json, options({ maxMessageSize: bytes - 1 })))).toBe(
      'message_too_large',
    );
    const frame = on.encodeM2M(json);
    const wire = on.encodeM2MText(json);
    for (const [size, code] of [
      [0, 'no error'],
      [-1, 'message_too_large'],
    ] as const) {
      const forFrame = options({ maxMessageSize: frame.length + size });
      expect(on.codeOf(() => on.encodeM2M(json, forFrame))).toBe(code);
      expect(on.codeOf(() => on.decodeM2M(frame, forFrame))).toBe(code);
      const forBody = options({ maxMessageSize: frame.length - PREFIX + size });
      expect(on.codeOf(() => on.encodeM2MBody(json, forBody))).toBe(code);
      expect(on.codeOf(() => on.decodeM2MBody(frame.subarray(PREFIX), forBody))).toBe(code);
      const forText = options({ maxMessageSize: wire.length + size });
      expect(on.codeOf(() => on.encodeM2MText(json, forText))).toBe(code);
      expect(on.codeOf(() => on.decodeM2M(wire, forText))).toBe(code);
    }
  });

  it('bound depth, strings, arrays and totals in both directions', () => {
    const cases = [
      ['[[[1]]]', 'maxJsonDepth', 3, 'json_too_deep'],
      ['{"a":"12345"}', 'maxStringLength', 5, 'string_too_long'],
      ['{"a":[1,2,3,4]}', 'maxArrayLength', 4, 'array_too_long'],
      ['{"a":[1,2,[]]}', 'maxJsonValues', 6, 'too_many_values'],
    ] as const;
    for (const [json, limit, n, code] of cases) {
      const frame = on.encodeM2M(json);
      for (const [value, expected] of [
        [n, 'no error'],
        [n - 1, code],
      ] as const) {
        const limits = options({ [limit]: value });
        expect(on.codeOf(() => on.encodeM2M(json, limits))).toBe(expected);
        expect(on.codeOf(() => on.decodeM2M(frame, limits))).toBe(expected);
      }
    }
  });

  it('have the documented defaults', () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
    const list = (length: number) => JSON.stringify(new Array(length).fill(0));
    expect(on.codeOf(() => on.encodeM2M(nested(32)))).toBe('no error');
    expect(on.codeOf(() => on.encodeM2M(nested(33)))).toBe('json_too_deep');
    expect(on.codeOf(() => on.encodeM2M(list(10_000)))).toBe('no error');
    expect(on.codeOf(() => on.encodeM2M(list(10_001)))).toBe('array_too_long');
    const unbounded = options({ maxJsonDepth: Infinity });
    expect(on.codeOf(() => on.decodeM2M(on.encodeM2M(nested(33), unbounded)))).toBe('json_too_deep');
  });

  it('with unknown names are refused', () => {
    const limits = { maxMesageSize: 1 } as never;
    expect(on.codeOf(() => on.encodeM2M(SMALL, { limits }))).toBe('invalid_option');
    expect(on.codeOf(() => on.decodeM2M(on.encodeM2M(SMALL), { limits }))).toBe('invalid_option');
  });
});
