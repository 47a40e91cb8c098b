import { describe, expect, it } from 'vitest';
import { resolveLimits } from '../../base/limits.js';
import { createBodyCoder } from '../../codec/auto/coder.js';
import { encodePart } from './encode-part.js';
import { type Body, contentOf, type Part } from './part.js';

const coder = createBodyCoder({
  algorithms: ['NONE'],
  encoding: undefined,
  limits: resolveLimits(),
  security: undefined,
  yield: () => Promise.resolve(),
});

const sent = async (part: Part) => Buffer.from((await encodePart(part, coder)).bytes).toString();

describe('a part', () => {
  const bodies: (Body & Part)[] = [
    'text',
    '',
    5,
    true,
    null,
    new Uint8Array([104, 105]),
    { sum: 3 },
    [1, 2],
    [],
    {},
    { text: 'a', language: 'en' },
    { text: 5 },
    { tokens: 512 },
    { bytes: 'x' },
    { json: 1, more: 2 },
    new Date(0),
    new Uint8Array([0, 104, 105]).buffer,
    new Uint16Array([26729]),
    new DataView(new Uint8Array([0, 104, 105]).buffer, 1),
    Object.create(null) as object,
    { toJSON: () => ({}) },
    new (class {
      field = undefined;
    })(),
  ];
  it('is sent as a body is', async () => {
    for (const body of bodies) {
      const content = contentOf(body);
      expect(await sent(body)).toBe(
        typeof content === 'string' ? content : Buffer.from(content as Uint8Array).toString(),
      );
    }
  });

  it('may say in its only member how it is sent', async () => {
    expect(await sent({ text: 'as text' })).toBe('as text');
    expect(await sent({ bytes: new Uint8Array([104, 105]) })).toBe('hi');
    expect(await sent({ json: 'quoted' })).toBe('"quoted"');
    expect(await sent({ json: { text: 'as JSON' } })).toBe('{"text":"as JSON"}');
    expect(() => encodePart({ tokens: [1] }, coder)).toThrow(
      expect.objectContaining({ code: 'unsupported' }),
    );
  });

  it.each<unknown>([
    undefined,
    () => 1,
    Symbol('a'),
    1n,
    { json: undefined },
    new Map([[1, 2]]),
    new Set([1]),
    Object.assign(new Error('x'), { code: 5 }),
    { json: new Blob(['abc']) },
    /a/,
    { json: new Map() },
    Promise.resolve(1),
    (async function* () {})(),
  ])('has to have a JSON form: case %#', (value) => {
    expect(() => encodePart(value as Part, coder)).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    );
  });
});
