import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm, EncodingName, Extension } from '../base/constants.js';
import type { HelloPayload } from './messages.js';
import {
  type Agreement,
  type Capabilities,
  commonVersion,
  negotiate,
  statedVocabularies,
} from './negotiate.js';

const ALGORITHMS = Object.values(Algorithm);
const ENCODINGS = Object.values(EncodingName);
const HASHES = ['aa', 'bb'];

const someOf = <T>(values: readonly T[]) => fc.shuffledSubarray([...values]);
const hashes = fc
  .tuple(...ENCODINGS.map(() => fc.option(fc.constantFrom(...HASHES))))
  .map((given) =>
    Object.fromEntries(ENCODINGS.map((name, i) => [name, given[i]]).filter(([, hash]) => hash !== null)),
  );
const extensionNames = someOf(['link', 'resume', 'context', 'constructor']);

const support: fc.Arbitrary<Capabilities> = fc.record({
  algorithms: someOf(ALGORITHMS),
  encodings: someOf(ENCODINGS),
  vocabularies: hashes,
  securityScanning: fc.boolean(),
  maxPayloadSize: fc.nat(1_000),
  extensions: extensionNames.map((names) => Object.fromEntries(names.map((name) => [name, '{}']))),
});
const offer: fc.Arbitrary<HelloPayload> = fc
  .record({
    version: fc.constantFrom('1.0', '3.0', '1.7'),
    preferredEncoding: fc.option(fc.constantFrom(...ENCODINGS)),
    stated: support,
  })
  .map(({ version, preferredEncoding, stated: { vocabularies, ...rest } }) => ({
    ...rest,
    shape: 'flat',
    version,
    preferredEncoding,
    supportsStreaming: true,
    extensions: { ...rest.extensions, [Extension.VOCABULARIES]: JSON.stringify(vocabularies) },
  }));

const OFFER: HelloPayload = {
  shape: 'flat',
  version: '1.0',
  algorithms: [Algorithm.TOKEN_NATIVE, Algorithm.NONE],
  encodings: [EncodingName.O200K_BASE, EncodingName.CL100K_BASE],
  preferredEncoding: EncodingName.O200K_BASE,
  securityScanning: false,
  maxPayloadSize: 0,
  supportsStreaming: true,
  extensions: {},
};
const SUPPORT: Capabilities = {
  algorithms: [Algorithm.NONE, Algorithm.TOKEN_NATIVE],
  encodings: [EncodingName.CL100K_BASE, EncodingName.O200K_BASE],
  vocabularies: { CL100K_BASE: 'c', O200K_BASE: 'o' },
  securityScanning: false,
  maxPayloadSize: 0,
  extensions: {},
};
const agreed = (hello: Partial<HelloPayload>, capabilities: Partial<Capabilities> = {}): Agreement => {
  const outcome = negotiate({ ...OFFER, ...hello }, { ...SUPPORT, ...capabilities });
  if (!outcome.accepted) throw new Error(outcome.reject.message);
  return outcome.agreement;
};
const vocabularies = (stated: object) => ({ [Extension.VOCABULARIES]: JSON.stringify(stated) });

describe('negotiation', () => {
  it('agrees on the algorithms that both ends list, in the order of the client, or rejects', () => {
    fc.assert(
      fc.property(offer, support, (hello, capabilities) => {
        const outcome = negotiate(hello, capabilities);
        const shared = hello.algorithms.filter((name) => capabilities.algorithms.includes(name));
        if (outcome.accepted) {
          const { encoding, algorithms } = outcome.agreement;
          expect(algorithms).not.toHaveLength(0);
          expect(algorithms).toEqual(shared.filter((name) => name !== 'TOKEN_NATIVE' || encoding !== null));
        } else {
          expect(outcome.reject.code).toBe('NO_COMMON_ALGORITHM');
          expect([[], ['TOKEN_NATIVE']]).toContainEqual(shared);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('chooses an encoding that both have with the same vocabulary, if possible the preferred one', () => {
    fc.assert(
      fc.property(offer, support, (hello, capabilities) => {
        const outcome = negotiate(hello, capabilities);
        if (!outcome.accepted) return;
        const theirs: Record<string, string> = JSON.parse(hello.extensions[Extension.VOCABULARIES] as string);
        const same = hello.encodings.filter((name) => {
          const [a, b] = [theirs[name], capabilities.vocabularies[name]];
          return capabilities.encodings.includes(name) && (a === undefined || b === undefined || a === b);
        });
        const best = same.find((name) => name === hello.preferredEncoding) ?? same[0] ?? null;
        expect(outcome.agreement.encoding).toBe(best);
      }),
      { numRuns: 500 },
    );
  });

  it('has the same sizes, scanning and extensions with the ends swapped', () => {
    fc.assert(
      fc.property(offer, support, (hello, capabilities) => {
        const there = negotiate(hello, capabilities);
        const back = negotiate(
          { ...hello, ...capabilities, preferredEncoding: null },
          { ...capabilities, ...hello, vocabularies: {} },
        );
        if (!there.accepted || !back.accepted) return;
        const facts = ({ agreement }: typeof there) => ({
          size: agreement.maxPayloadSize,
          scanning: agreement.securityScanning,
          extensions: [...agreement.extensions].sort(),
        });
        expect(facts(back)).toEqual(facts(there));
        expect(facts(there).scanning).toBe(hello.securityScanning && capabilities.securityScanning);
      }),
    );
  });

  it.each([
    [0, 0, 0],
    [0, 5, 5],
    [5, 0, 5],
    [5, 9, 5],
    [9, 5, 5],
  ])('of the sizes %i and %i takes the smaller stated one: %i', (theirs, ours, size) => {
    expect(agreed({ maxPayloadSize: theirs }, { maxPayloadSize: ours }).maxPayloadSize).toBe(size);
  });

  it('skips a vocabulary with a different hash, and accepts one without a hash', () => {
    const hello = (stated: object) => agreed({ extensions: vocabularies(stated) }).encoding;
    expect(hello({ O200K_BASE: 'o' })).toBe('O200K_BASE');
    expect(hello({ O200K_BASE: 'other' })).toBe('CL100K_BASE');
    expect(hello({})).toBe('O200K_BASE');
    expect(agreed({ extensions: vocabularies({ O200K_BASE: 'o' }) }, { vocabularies: {} }).encoding).toBe(
      'O200K_BASE',
    );
  });

  it('drops only TOKEN_NATIVE if no vocabulary is shared, and says so', () => {
    const none = agreed({ extensions: vocabularies({ O200K_BASE: 'x', CL100K_BASE: 'x' }) });
    expect(none).toMatchObject({ encoding: null, algorithms: ['NONE'] });
    expect(none.reasons.join('; ')).toMatch(/O200K_BASE skipped.*CL100K_BASE skipped.*TOKEN_NATIVE dropped/);
  });

  it('gives the reasons for its decisions, and no others', () => {
    expect(agreed({}).reasons).toEqual([
      "encoding O200K_BASE: the client's preferred one",
      "algorithms TOKEN_NATIVE, NONE: the ones that both ends list, in the client's order",
    ]);
    expect(agreed({ preferredEncoding: null }).reasons[0]).toMatch(/^encoding O200K_BASE: the first/);
    expect(agreed({ encodings: [] }).reasons[0]).toBe('no encoding in common');
    const outcome = negotiate({ ...OFFER, algorithms: [] }, SUPPORT);
    expect(outcome.accepted ? '' : outcome.reject.message).toMatch(
      /offers none that is known here, .* has NONE, TOKEN_NATIVE$/,
    );
  });

  it('rejects if TOKEN_NATIVE was the only algorithm', () => {
    const outcome = negotiate({ ...OFFER, algorithms: ['TOKEN_NATIVE'], encodings: [] }, SUPPORT);
    expect(outcome).toMatchObject({ accepted: false, reject: { code: 'NO_COMMON_ALGORITHM' } });
  });

  it('ignores a preferred encoding that is not in the list of the client', () => {
    expect(agreed({ preferredEncoding: 'O200K_BASE', encodings: ['CL100K_BASE'] }).encoding).toBe(
      'CL100K_BASE',
    );
    expect(agreed({ preferredEncoding: null }).encoding).toBe('O200K_BASE');
  });

  it('does not enable an extension that only a prototype has', () => {
    const extensions = { constructor: '{}', toString: '{}', link: '{}' };
    expect(agreed({ extensions }, { extensions: { link: '' } }).extensions).toEqual(['link']);
  });
});

describe('version', () => {
  it.each([
    ['1.0', '1.0'],
    ['1', '1.0'],
    ['1.99.7', '1.0'],
    ['3.0', '3.0'],
    ['3.1', '3.0'],
    ['', undefined],
    ['2.0', undefined],
    ['10.0', undefined],
    ['31', undefined],
    ['.0', undefined],
    ['v1.0', undefined],
    [' 1.0', undefined],
    ['1.0\0'.repeat(8), '1.0'],
    ['-1.0', undefined],
  ])('%j is answered with %s', (stated, version) => {
    expect(commonVersion(stated)).toBe(version);
    const outcome = negotiate({ ...OFFER, version: stated }, SUPPORT);
    expect(outcome.accepted ? outcome.agreement.version : outcome.reject.code).toBe(
      version ?? 'VERSION_MISMATCH',
    );
  });

  it('is checked before anything else', () => {
    expect(negotiate({ ...OFFER, version: '2.0', algorithms: [] }, SUPPORT)).toMatchObject({
      reject: { code: 'VERSION_MISMATCH' },
    });
  });
});

describe('stated vocabularies', () => {
  it.each([
    ['{"CL100K_BASE":"c","O200K_BASE":5,"x":null}', { CL100K_BASE: 'c' }],
    ['{}', {}],
    ['null', {}],
    ['"CL100K_BASE"', {}],
    ['["c"]', {}],
    ['{"CL100K_BASE":', {}],
    ['', {}],
  ])('of %j are %j', (stated, expected) => {
    expect(statedVocabularies({ [Extension.VOCABULARIES]: stated })).toEqual(expected);
  });

  it('are none if the extension is absent, and never those of a prototype', () => {
    expect(statedVocabularies({})).toEqual({});
    const hello = { extensions: { [Extension.VOCABULARIES]: '{"__proto__":{"O200K_BASE":"x"}}' } };
    expect(agreed(hello).encoding).toBe('O200K_BASE');
  });
});
