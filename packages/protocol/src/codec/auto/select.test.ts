import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { Algorithm } from '../../base/constants.js';
import { assertWellFormed, encodeUtf8 } from '../../base/text.js';
import { errorCode } from '../../testing/error-code.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { encodeM2MBody } from '../m2m/m2m.js';
import { compressBrotli } from '../text/brotli.js';
import { encodeDictionaryBody } from '../text/dictionary.js';
import { loadEncoding } from '../vocabulary/load.js';
import { type Candidate, createSelector } from './select.js';

/** A codec that codes a character as `ratio` bytes, and counts the characters that it was given. */
function fake(algorithm: Algorithm, ratio: number | ((text: string) => number | undefined)) {
  const candidate = {
    algorithm,
    decodeIsExact: true as const,
    characters: 0,
    calls: 0,
    encode(text: string) {
      assertWellFormed(text);
      candidate.characters += text.length;
      candidate.calls++;
      const size = typeof ratio === 'number' ? ratio * text.length : ratio(text);
      return size === undefined ? undefined : new Uint8Array(Math.round(size));
    },
  };
  return candidate;
}

const { TOKEN_NATIVE, BROTLI, M2M, DICTIONARY, NONE } = Algorithm;
const message = (length: number) => 'the words of a message '.repeat(length).slice(0, length);

describe('createSelector', () => {
  it('has no choice with one codec, and fails without any', () => {
    const only = createSelector([fake(BROTLI, 0.5)]).select('Hello');
    expect(only).toMatchObject({ algorithm: BROTLI, reason: { rule: 'only' } });
    expect(errorCode(() => createSelector([]).select('Hello'))).toBe('unrepresentable');
    expect(errorCode(() => createSelector([fake(NONE, 1), fake(NONE, 1)]))).toBe('invalid_argument');
  });

  it('takes the smallest of all for a new kind of message, and reports the comparison', () => {
    const selector = createSelector([fake(TOKEN_NATIVE, 0.5), fake(BROTLI, 0.4), fake(NONE, 1)]);
    const { algorithm, body, reason } = selector.select(message(1000));
    expect(algorithm).toBe(BROTLI);
    expect(body).toHaveLength(400);
    expect(reason).toEqual({
      rule: 'smallest',
      tried: [
        { algorithm: TOKEN_NATIVE, bytes: 500, estimated: false },
        { algorithm: BROTLI, bytes: 400, estimated: false },
        { algorithm: NONE, bytes: 1000, estimated: false },
      ],
    });
  });

  it('takes the first of equal results', () => {
    expect(createSelector([fake(NONE, 1), fake(BROTLI, 1)]).select('abc').algorithm).toBe(NONE);
    expect(createSelector([fake(BROTLI, 1), fake(NONE, 1)]).select('abc').algorithm).toBe(BROTLI);
    expect(createSelector([fake(BROTLI, 0), fake(NONE, 1)]).select('').algorithm).toBe(BROTLI);
  });

  it('learns which codec wins, and then tries others only now and then', () => {
    const winner = fake(BROTLI, 0.4);
    const loser = fake(TOKEN_NATIVE, 0.9);
    const selector = createSelector([loser, winner]);
    const rules = Array.from({ length: 500 }, () => selector.select(message(1000)).reason.rule);
    expect(winner.calls).toBe(500);
    expect(loser.calls).toBeGreaterThan(1);
    expect(loser.calls).toBeLessThan(15);
    expect(rules.filter((rule) => rule === 'learned').length).toBe(500 - loser.calls);
  });

  it('notices when another codec becomes the smaller one', () => {
    let second = 0.6;
    const selector = createSelector([fake(TOKEN_NATIVE, 0.5), fake(BROTLI, (text) => text.length * second)]);
    for (let i = 0; i < 50; i++) expect(selector.select(message(1000)).algorithm).toBe(TOKEN_NATIVE);
    second = 0.3;
    const chosen = Array.from({ length: 600 }, () => selector.select(message(1000)).algorithm);
    expect(chosen.indexOf(BROTLI)).toBeGreaterThan(-1);
    expect(chosen.slice(-50).every((algorithm) => algorithm === BROTLI)).toBe(true);
  });

  it('compares at once if a result is larger than expected', () => {
    const selector = createSelector([
      fake(TOKEN_NATIVE, 0.5),
      fake(BROTLI, (text) => text.length * (text.includes('#') ? 0.8 : 0.3)),
    ]);
    expect(selector.select(message(1000)).algorithm).toBe(BROTLI);
    expect(selector.select(message(1000)).reason.rule).toBe('learned');
    expect(selector.select(`${message(999)}#`)).toMatchObject({
      algorithm: TOKEN_NATIVE,
      reason: { rule: 'smallest' },
    });
  });

  it('learns each kind of message and of content separately', () => {
    const codec = fake(BROTLI, 0.4);
    const other = fake(TOKEN_NATIVE, 0.9);
    const selector = createSelector([other, codec]);
    const json = JSON.stringify(Array.from({ length: 99 }, (_, i) => ({ i })));
    for (const [text, kind] of [
      [message(1000), 'request'],
      [message(1000), 'response'],
      [json, 'request'],
      ['漢字'.repeat(500), 'request'],
    ] as const) {
      const before = other.calls;
      selector.select(text, kind);
      expect(other.calls).toBe(before + 1);
      selector.select(text, kind);
      expect(other.calls).toBe(before + 1);
    }
  });

  it('tries the others if the learned codec cannot carry a text', () => {
    const selector = createSelector([
      fake(DICTIONARY, (text) => (text.includes('é') ? undefined : text.length * 0.2)),
      fake(BROTLI, 0.6),
    ]);
    expect(selector.select(message(1000)).algorithm).toBe(DICTIONARY);
    const { algorithm, reason } = selector.select(`${message(999)}é`);
    expect(algorithm).toBe(BROTLI);
    expect(reason.tried).toContainEqual({ algorithm: DICTIONARY, bytes: undefined, estimated: false });
    const never = createSelector([fake(DICTIONARY, () => undefined), fake(BROTLI, () => undefined)]);
    for (let i = 0; i < 3; i++) expect(errorCode(() => never.select('é'))).toBe('unrepresentable');
  });

  it('does not try M2M if Brotli is available', () => {
    const m2m = fake(M2M, 0.1);
    createSelector([m2m, fake(BROTLI, 0.5), fake(NONE, 1)]).select(message(1000));
    expect(m2m.calls).toBe(0);
    expect(createSelector([m2m, fake(NONE, 1)]).select(message(1000)).algorithm).toBe(M2M);
  });

  it('estimates codecs with proportional output from a sample of a longer text', () => {
    const tokens = fake(TOKEN_NATIVE, 0.5);
    const selector = createSelector([tokens, fake(BROTLI, 0.4)]);
    const { reason } = selector.select(message(10_000));
    expect(tokens.characters).toBe(512);
    expect(reason.tried).toContainEqual({ algorithm: TOKEN_NATIVE, bytes: 5000, estimated: true });
    // A codec that is estimated to be the smallest still has to code the whole text.
    expect(
      createSelector([fake(TOKEN_NATIVE, 0.3), fake(BROTLI, 0.4)]).select(message(10_000)),
    ).toMatchObject({
      algorithm: TOKEN_NATIVE,
      body: { length: 3000 },
    });
  });

  it('does not split a surrogate pair for such a sample', () => {
    for (let offset = 0; offset < 4; offset++) {
      const text = 'x'.repeat(offset) + '🎉'.repeat(3000);
      expect(createSelector([fake(TOKEN_NATIVE, 1), fake(NONE, 2)]).select(text).algorithm).toBe(
        TOKEN_NATIVE,
      );
    }
  });

  it('follows the document if a large message is the first of its kind', () => {
    const selector = createSelector([fake(TOKEN_NATIVE, 0.5), fake(BROTLI, 0.3), fake(NONE, 1)]);
    expect(selector.select(message(100_000))).toMatchObject({
      algorithm: BROTLI,
      reason: { rule: 'heuristic' },
    });
    const incompressible = createSelector([fake(TOKEN_NATIVE, 1.4), fake(BROTLI, 1.2), fake(NONE, 1)]);
    expect(incompressible.select(message(100_000)).algorithm).toBe(NONE);
    const without = createSelector([fake(NONE, 1), fake(DICTIONARY, 0.9), fake(M2M, 0.4)]);
    expect(without.select(message(100_000)).algorithm).toBe(M2M);
  });

  it('forgets the least recently used kind', () => {
    const other = fake(TOKEN_NATIVE, 0.9);
    const selector = createSelector([other, fake(BROTLI, 0.4)], { maxKinds: 2 });
    for (const kind of ['a', 'b', 'a', 'c']) selector.select(message(1000), kind);
    expect(other.calls).toBe(3);
    selector.select(message(1000), 'a');
    expect(other.calls).toBe(3);
    selector.select(message(1000), 'b');
    expect(other.calls).toBe(4);
  });
});

describe('over real codecs', () => {
  let encoding: Encoding;
  beforeAll(async () => {
    encoding = await loadEncoding('CL100K_BASE');
  });

  const attempt = (encode: (text: string) => Uint8Array) => (text: string) =>
    errorCode(() => encode(text)) === 'none' ? encode(text) : undefined;
  const real = (): Candidate[] =>
    (
      [
        [TOKEN_NATIVE, (text) => encoding.encodeVarints(text)],
        [M2M, attempt(encodeM2MBody)],
        [BROTLI, (text) => compressBrotli(encodeUtf8(text))],
        [DICTIONARY, attempt((text) => encodeDictionaryBody(encodeUtf8(text)))],
        [NONE, encodeUtf8],
      ] as const satisfies readonly (readonly [Algorithm, Candidate['encode']])[]
    ).map(([algorithm, encode]) => ({ algorithm, encode, decodeIsExact: true }));

  it('returns the result of the chosen codec, never larger than those it was compared with', () => {
    const selector = createSelector(real());
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', maxLength: 3000 }),
        fc.constantFrom('', 'a'),
        (text, kind) => {
          const { algorithm, body, reason } = selector.select(text, kind);
          const chosen = real().find((candidate) => candidate.algorithm === algorithm);
          expect(body).toEqual(chosen?.encode(text));
          for (const { bytes, estimated } of reason.tried) {
            if (bytes !== undefined && !estimated) expect(body.length).toBeLessThanOrEqual(bytes);
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  it('chooses the same codecs for the same messages', () => {
    const [one, two] = [createSelector(real()), createSelector(real())];
    for (const [text, kind] of traffic(100)) {
      expect(two.select(text, kind).reason).toEqual(one.select(text, kind).reason);
    }
  });

  it('stays within 2 % of the smallest results, and encodes two fifths of the characters', () => {
    let encoded = 0;
    const heavy: readonly Algorithm[] = [TOKEN_NATIVE, M2M, BROTLI];
    const counted = real().map((candidate) => ({
      ...candidate,
      encode(text: string) {
        if (heavy.includes(candidate.algorithm)) encoded += text.length;
        return candidate.encode(text);
      },
    }));
    const selector = createSelector(counted);
    let chosen = 0;
    let smallest = 0;
    let all = 0;
    for (const [text, kind] of traffic(400)) {
      chosen += selector.select(text, kind).body.length;
      smallest += Math.min(...real().map(({ encode }) => encode(text)?.length ?? Infinity));
      all += text.length * heavy.length;
    }
    expect(chosen / smallest).toBeLessThan(1.02);
    expect(encoded / all).toBeLessThan(0.4);
  });
});

/** Chat requests and responses of 100 B to 30 KB, and stream chunks; always the same ones. */
function* traffic(count: number): Generator<readonly [text: string, kind: string]> {
  let state = 1;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const words =
    'the a session of frames carries each token from client to server and back when one model asks another for context it already had while streams take turns so that nothing waits behind tensors'.split(
      ' ',
    );
  const prose = (length: number) => {
    let text = '';
    while (text.length < length) {
      const word = words[Math.floor(random() * words.length)];
      text += random() < 0.1 ? `${word}${Math.floor(random() * 1000)}. ` : `${word} `;
    }
    return text;
  };
  const length = () => Math.round(100 * 300 ** random());
  for (let i = 0; i < count; i++) {
    const content = prose(i % 3 === 2 ? 4 : length());
    if (i % 3 === 0) {
      const messages = [{ role: 'user', content }];
      yield [JSON.stringify({ model: 'gpt-4o', messages, temperature: random() }), 'request'];
    } else if (i % 3 === 1) {
      const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }];
      yield [JSON.stringify({ id: `chatcmpl-${i}`, object: 'chat.completion', choices }), 'response'];
    } else {
      const choices = [{ index: 0, delta: { content }, finish_reason: null }];
      yield [JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', choices }), 'chunk'];
    }
  }
}
