import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import * as library from './library.js';
import * as small from './small.js';

/** MessagePack of pages against that of Node. */

const BOTH = [library, small] as const;

describe('both MessagePacks', () => {
  type Outcome = { readonly value?: unknown; readonly code?: string };
  const outcomeOf = (run: () => unknown): Outcome => {
    let value: unknown;
    const code = errorCode(() => {
      value = run();
    });
    return code === 'none' ? { value } : { code };
  };
  const agree = (bytes: Uint8Array, maxDepth = 8, maxEntries?: number) => {
    const [onNode, inPages] = BOTH.map(({ decodeMsgpack, assertMsgpackBounds }) => ({
      decoded: outcomeOf(() => decodeMsgpack(bytes, maxDepth, 'this', maxEntries)),
      bounds: errorCode(() => assertMsgpackBounds(bytes, maxDepth, 'this', maxEntries)),
    }));
    // `toStrictEqual` takes a key `constructor` for a class.
    if (!isDeepStrictEqual(inPages, onNode)) expect({ inPages }).toBe({ onNode });
  };

  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 40 }),
    fc.string({ maxLength: 300 }),
    fc.constantFrom('constructor', 'toString', '\ufeff', '\ufeff'.repeat(80), ''),
  );
  const number = fc.oneof(
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double(),
    fc.constantFrom(
      ...[7, 8, 15, 16, 31, 32, 53, 63, 64].flatMap((n) => [2 ** n, 2 ** n - 1, -(2 ** n), -(2 ** n) - 1]),
    ),
  );
  /** Everything that maps of the protocol hold: messages, metadata, errors. */
  const { value: values } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      text,
      number,
      fc.boolean(),
      fc.constantFrom(null, undefined),
      fc.uint8Array({ maxLength: 300 }),
      fc.array(tie('value'), { maxLength: 20 }),
      fc.dictionary(
        text.filter((key) => key !== '__proto__'),
        tie('value'),
        { maxKeys: 20 },
      ),
    ),
  }));
  const entries = fc.option(fc.nat(40), { nil: undefined });

  it('write the same bytes, or refuse the same values', () => {
    fc.assert(
      fc.property(values, (value) => {
        const [onNode, inPages] = BOTH.map(({ encodeMsgpack }) => outcomeOf(() => encodeMsgpack(value)));
        expect(inPages).toStrictEqual(onNode);
      }),
      { numRuns: 1_000 },
    );
  });

  it('read the same value, or refuse it with the same code, within any bounds', () => {
    fc.assert(
      fc.property(values, fc.nat(6), entries, (value, maxDepth, maxEntries) => {
        const { value: bytes } = outcomeOf(() => library.encodeMsgpack(value));
        if (bytes !== undefined) agree(bytes as Uint8Array, maxDepth, maxEntries);
      }),
      { numRuns: 1_000 },
    );
  });

  /** Bytes that are heads more often than chance has it. */
  const heads = fc.oneof(
    fc.integer({ min: 0, max: 255 }),
    fc.integer({ min: 0x80, max: 0xbf }),
    fc.integer({ min: 0xc0, max: 0xdf }),
    fc.constantFrom(0, 1, 2, 0xff),
  );

  it('agree on random bytes', () => {
    fc.assert(
      fc.property(fc.array(heads, { maxLength: 60 }), fc.nat(5), entries, (bytes, maxDepth, maxEntries) =>
        agree(Uint8Array.from(bytes), maxDepth, maxEntries),
      ),
      { numRuns: 5_000 },
    );
  });

  const ENVELOPES = [
    {
      type: 'HELLO',
      session_id: null,
      timestamp: 1_700_000_000_000,
      payload: {
        version: '1.0',
        algorithms: ['M2M', 'TOKEN_NATIVE', 'NONE'],
        encodings: ['CL100K_BASE'],
        preferred_encoding: null,
        security_scanning: true,
        max_payload_size: 16_777_216,
        extensions: { link: '{"limits":{"maxStreams":100}}', größe: '±½' },
        resume: { session_id: 's', token: 'x'.repeat(60), received: 70_000, attempt: 1 },
      },
    },
    { type: 'GOAWAY', session_id: 's', timestamp: 1, payload: { retry_after_ms: 0.5, deadline: -1 } },
    {
      code: 'refused',
      message: 'é'.repeat(40),
      data: '{"a":[1,2]}',
      retryable: false,
      bytes: Uint8Array.of(1, 2),
    },
  ].map((fields) => library.encodeMsgpack(fields));

  const edit = fc.record({
    at: fc.nat(1_000),
    removed: fc.nat(3),
    inserted: fc.array(heads, { maxLength: 4 }),
  });

  it('agree on damaged envelopes', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...ENVELOPES),
        fc.array(edit, { maxLength: 4 }),
        fc.nat(5),
        entries,
        (envelope, edits, maxDepth, maxEntries) => {
          const bytes = [...envelope];
          for (const { at, removed, inserted } of edits)
            bytes.splice(at % bytes.length, removed, ...inserted);
          agree(Uint8Array.from(bytes), maxDepth, maxEntries);
        },
      ),
      { numRuns: 5_000 },
    );
  });

  it('agree on an envelope with any one byte replaced by any other', () => {
    for (const envelope of ENVELOPES) {
      for (let at = 0; at < envelope.length; at += 1) {
        for (const byte of [
          0x00, 0x7f, 0x80, 0x8f, 0x90, 0xa1, 0xc0, 0xc1, 0xc4, 0xc7, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd8,
          0xd9, 0xdb, 0xdd, 0xdf, 0xff,
        ])
          agree(envelope.with(at, byte));
      }
    }
  });
});
