import type { Part } from '@parlance/server';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';

/** A handler whose text is cut within a surrogate pair, as tokenizers and pages of fixed length do. */

let test: TestServer | undefined;
afterEach(() => test?.close());

type Batch = { ms: number; bytes: number } | undefined;

async function read(parts: readonly Part[], batch: Batch): Promise<string[]> {
  test = await createTestServer({
    async *onRequest(_request, context) {
      context.setBatch(batch);
      yield* parts;
    },
  });
  const session = await test.connect();
  const got: string[] = [];
  const reading = (async () => {
    for await (const part of session.stream('x')) got.push(part.text);
  })();
  await test.clock.advance(1_000);
  await reading;
  return got;
}

const cases: readonly (readonly [name: string, parts: readonly Part[], expected: readonly string[]])[] = [
  ['cut once', ['Hi \ud83d', '\ude00, all well?'], ['Hi ', '😀, all well?']],
  ['a unit at a time', [...'a😀b😀'].flatMap((each) => each.split('')), ['a', '😀', 'b', '😀']],
  ['as a form', [{ text: 'a\ud83d' }, { text: '\ude00' }], ['a', '😀']],
  ['with an empty part between', ['a\ud83d', '', '\ude00'], ['a', '😀']],
  ['cut twice in a row', ['\ud83d', '\ude00\ud83d', '\ude01'], ['😀', '😁']],
  ['at the end', ['a\ud83d'], ['a', '\ufffd']],
  ['and nothing else', ['\ud83d'], ['\ufffd']],
  ['before text that does not complete it', ['a\ud83d', 'b'], ['a', '\ufffdb']],
  ['before another first half', ['\ud83d', '\ud83d\ude00'], ['\ufffd😀']],
  ['before JSON', ['a\ud83d', { b: 1 }], ['a', '\ufffd', '{"b":1}']],
  ['before bytes', ['a\ud83d', Buffer.from('b')], ['a', '\ufffd', 'b']],
];

describe('text that is cut in a character', () => {
  it.each(cases)('%s', async (_name, parts, expected) => {
    expect(await read(parts, undefined)).toEqual(expected);
  });

  it.each(cases)('%s, in batches', async (_name, parts, expected) => {
    expect((await read(parts, { ms: 5, bytes: 100 })).join('')).toBe(expected.join(''));
  });

  it('as a whole reply, which nothing completes', async () => {
    test = await createTestServer({
      onRequest: ({ text }) => (text === 'a' ? 'a\ud83d' : { text: 'b\ud83d' }),
    });
    const session = await test.connect();
    expect((await session.request('a')).text).toBe('a\ufffd');
    expect((await session.request('b')).text).toBe('b\ufffd');
  });

  it('is refused from a caller, who can repair it', async () => {
    test = await createTestServer({ onSession() {} });
    const session = await test.connect();
    await expect(session.send('\ud83d')).rejects.toMatchObject({ code: 'lone_surrogate' });
    await expect(session.request('a\ud83d')).rejects.toMatchObject({ code: 'lone_surrogate' });
  });
});
