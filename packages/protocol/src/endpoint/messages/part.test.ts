import { describe, expect, it } from 'vitest';
import { resolveLimits } from '../../base/limits.js';
import { createBodyCoder } from '../../codec/auto/coder.js';
import type { BlobBody } from './blob.js';
import { encodePart } from './encode-part.js';
import { type Body, contentOf } from './part.js';
import { readBlob } from './read-blob.js';

const limits = resolveLimits();
const coder = createBodyCoder({
  algorithms: ['NONE'],
  encoding: undefined,
  limits,
  security: undefined,
  yield: () => Promise.resolve(),
});
const read = (blob: BlobBody) => readBlob(blob, limits.maxMessageSize);

/** The content as text, of a body and of a part of a reply. */
async function sent(body: Body): Promise<string> {
  const content = contentOf(body);
  const bytes = content instanceof Blob ? await read(content) : content;
  const ofBody = typeof bytes === 'string' ? bytes : Buffer.from(bytes as Uint8Array).toString();
  const ofPart = Buffer.from((await encodePart(body, { coder, read })).bytes).toString();
  expect(ofPart).toBe(ofBody);
  return ofBody;
}

const refusal = (message: string) =>
  expect.objectContaining({ code: 'invalid_argument', message: expect.stringContaining(message) });

describe('a body', () => {
  it.each<[Body, string]>([
    ['text', 'text'],
    ['', ''],
    [5, '5'],
    [true, 'true'],
    [null, 'null'],
    [new Uint8Array([104, 105]), 'hi'],
    [new Uint8Array([0, 104, 105]).subarray(1), 'hi'],
    [new Uint8Array([104, 105]).buffer, 'hi'],
    [new Uint16Array([26984]), 'hi'],
    [new DataView(new Uint8Array([0, 104, 105]).buffer, 1), 'hi'],
    [new Blob(['hi']), 'hi'],
    [{ sum: 3 }, '{"sum":3}'],
    [[1, 2], '[1,2]'],
    [[], '[]'],
    [{}, '{}'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [Object.create(null) as object, '{}'],
    [{ toJSON: () => ({}) }, '{}'],
    [
      new (class {
        field = undefined;
      })(),
      '{}',
    ],
  ])('is sent as text, bytes or JSON: case %#', async (body, text) => {
    expect(await sent(body)).toBe(text);
  });

  it.each<[Body, string]>([
    [{ text: 'as text' }, 'as text'],
    [{ text: '' }, ''],
    [{ bytes: new Uint8Array([104, 105]) }, 'hi'],
    [{ bytes: new Uint8Array([104, 105]).buffer }, 'hi'],
    [{ bytes: new Blob(['hi']) }, 'hi'],
    [{ json: 'quoted' }, '"quoted"'],
    [{ json: { text: 'as JSON' } }, '{"text":"as JSON"}'],
    [{ json: null }, 'null'],
  ])('may say in its only member how it is sent: case %#', async (body, text) => {
    expect(await sent(body)).toBe(text);
  });

  it.each<Body>([
    { text: 'a', language: 'en' },
    { text: 5 },
    { text: null },
    { tokens: 512 },
    { tokens: ['a', 'b'] },
    { tokens: [1.5] },
    { tokens: [-1] },
    { tokens: [2 ** 32] },
    { tokens: [1], model: 'm' },
    { bytes: 'x' },
    { bytes: [1, 2] },
    { json: 1, more: 2 },
  ])('with a member of another kind, or more members, is JSON: case %#', async (body) => {
    expect(await sent(body)).toBe(JSON.stringify(body));
  });

  it('has a form only in a member of its own', async () => {
    class Note {
      id = 1;
      get text() {
        return 'derived';
      }
    }
    expect(await sent(new Note())).toBe('{"id":1}');
  });

  it('is token IDs, which need a codec for them', () => {
    for (const tokens of [[1, 2], new Uint32Array([1, 2]), []]) {
      expect(contentOf({ tokens })).toEqual({ tokens });
      expect(() => encodePart({ tokens }, { coder, read })).toThrow(
        expect.objectContaining({ code: 'unsupported' }),
      );
    }
  });

  it('of a form means the same when it is coded once more', () => {
    for (const body of ['"a"', new Uint8Array(2), new Blob([]), { tokens: [1] }])
      expect(contentOf(contentOf(body))).toEqual(contentOf(body));
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
    { json: new Uint8Array(2) },
    /a/,
    { json: new Map() },
  ])('has to have a JSON form: case %#', (value) => {
    const refused = expect.objectContaining({ code: 'invalid_argument' });
    expect(() => contentOf(value as Body)).toThrow(refused);
    expect(() => encodePart(value as Body, { coder, read })).toThrow(refused);
  });

  it.each<[unknown, string]>([
    [Promise.resolve(1), 'a promise is not a body: await it first'],
    [(async function* () {})(), 'a generator is not a body'],
    [(function* () {})(), 'a generator is not a body'],
    [{ id: 0, [Symbol.asyncIterator]: () => undefined }, 'a generator is not a body'],
    [{ json: Promise.resolve(1) }, 'a promise is not a body'],
  ])('is not made later: case %#', (value, message) => {
    expect(() => contentOf(value as Body)).toThrow(refusal(message));
  });
});

describe('bytes within JSON', () => {
  const bytes = new Uint8Array([1, 2]);
  it.each<[Body, string]>([
    [{ image: bytes, name: 'a' }, 'image: bytes have no JSON form'],
    [{ json: { image: bytes } }, 'image: '],
    [{ image: bytes }, 'image: '],
    [[1, bytes], '[1]: '],
    [{ parts: [{ type: 'text' }, { type: 'image', data: bytes }] }, 'parts[1].data: '],
    [{ empty: new Float32Array() }, 'empty: '],
    [{ buffer: bytes.buffer, more: 1 }, 'buffer: '],
    [{ view: new DataView(bytes.buffer), more: 1 }, 'view: '],
    [{ file: new Blob(['x']), more: 1 }, 'file: '],
    [{ file: Buffer.from('x'), more: 1 }, 'file: '],
    [{ a: { toJSON: () => ({ b: bytes }) }, more: 1 }, 'a.b: '],
    [{ a: { toJSON: () => bytes }, more: 1 }, 'a: '],
    [{ first: {}, a: bytes, b: bytes }, 'a: '],
  ])('are refused, with the path to them: case %#', (body, message) => {
    expect(() => contentOf(body)).toThrow(refusal(message));
  });

  it.each<Body>([
    { tools: [{ parameters: { type: 'object', properties: {} } }] },
    { text: 'a {} and a {"0":1', more: { '0': 1, nested: [{}, null, undefined] } },
    { kind: { type: 'Buffer', data: [1] } },
    { map: {}, more: 1 },
    { at: new Date(0), empty: {} },
  ])('are not mistaken: case %#', (body) => {
    expect(contentOf(body)).toBe(JSON.stringify(body));
  });

  it('are found at any depth that JSON has', () => {
    let deep: object = { bytes: new Uint8Array(1) };
    for (let i = 0; i < 2_000; i++) deep = [deep];
    expect(() => contentOf({ deep })).toThrow(refusal(`deep${'[0]'.repeat(2_000)}.bytes: `));
  });
});
