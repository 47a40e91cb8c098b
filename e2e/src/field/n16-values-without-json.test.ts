import type { Body } from '@parlance/server';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';

/** Values that JSON would leave out, or make an empty object, are refused at their caller with a path, at any level. */

let test: TestServer | undefined;
afterEach(() => test?.close());

class Empty {}
class Point {
  x = 1;
}

describe('a value within JSON', () => {
  it.each<[value: unknown, message: string]>([
    [{ m: new Map() }, 'm: the Map has'],
    [{ a: [1, { s: new Set([1]) }] }, 'a[1].s: the Set has'],
    [[new Error('no')], '[0]: the Error has'],
    [{ f: () => 1 }, 'f: the function has'],
    [{ a: { b: Symbol('c') } }, 'a.b: the symbol has'],
    [{ json: { w: new WeakMap() } }, 'w: the WeakMap has'],
    [{ e: new Empty() }, 'e: the Empty has'],
    [{ r: /x/ }, 'r: the RegExp has'],
    [{ b: new Uint8Array(0) }, 'b: bytes have'],
  ])('%o is refused', async (value, message) => {
    test = await createTestServer({ onSession() {} });
    const session = await test.connect();
    await expect(session.send(value as Body)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(message),
    });
  });

  it.each<[value: unknown, text: string]>([
    [{ d: new Date(0) }, '{"d":"1970-01-01T00:00:00.000Z"}'],
    [{ p: new Point(), o: {}, n: Object.create(null) }, '{"p":{"x":1},"o":{},"n":{}}'],
    [{ u: undefined, a: [undefined] }, '{"a":[null]}'],
    [{ m: Object.assign(new Map(), { toJSON: () => [] }) }, '{"m":[]}'],
    [{ b: [new Number(1), new String(''), new Boolean(false)] }, '{"b":[1,"",false]}'],
  ])('%o is written as JSON does', async (value, text) => {
    test = await createTestServer({ onRequest: (request) => request.text });
    const session = await test.connect();
    const answer = session.request(value as Body);
    await test.clock.advance(100);
    expect((await answer).text).toBe(text);
  });
});
