import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { fromHex } from '../../base/testing/bytes.js';
import { LARGE, PREFIX, SMALL } from '../../testing/m2m-shapes.js';
import { loadOn, type UnderTest } from '../../testing/on-platform.js';

describe.each(['node', 'web'] as const)('damaged M2M v1 frames on %s', (name) => {
  let on: UnderTest;
  beforeAll(async () => {
    on = await loadOn(name);
  });

  const attempts = [
    (frame: Uint8Array) => on.decodeM2M(frame),
    (frame: Uint8Array) => on.readM2MHeader(frame),
    (frame: Uint8Array) => on.decodeM2MBody(frame.subarray(PREFIX)),
  ];
  /** The only error allowed is a ProtocolError; `codeOf` rethrows any other. */
  const survive = (frame: Uint8Array) => attempts.map((attempt) => on.codeOf(() => attempt(frame)));

  it('are refused at every truncation', () => {
    for (const json of [SMALL, LARGE, '{"choices":[],"usage":{}}']) {
      const frame = on.encodeM2M(json);
      for (let length = 0; length < frame.length; length++) {
        expect(survive(frame.subarray(0, length))[0], `length ${length}`).not.toBe('no error');
      }
    }
  });

  it('are refused if the header is longer than its fields', () => {
    for (const value of [{ choices: [] }, { model: 'm', messages: [] }, {}]) {
      for (const schema of ['request', 'response', 'stream', 'custom'] as const) {
        const frame = on.encodeM2M(value, { schema });
        const headerLength = on.readM2MHeader(frame).headerLength;
        const end = PREFIX + headerLength;
        const longer = Uint8Array.from([...frame.subarray(0, end), 0, ...frame.subarray(end)]);
        longer[PREFIX] = headerLength + 1;
        expect(survive(longer)).toEqual(['bad_header', 'bad_header', 'bad_header']);
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

  it('throw only ProtocolErrors after any change, and leave the codec working', () => {
    const bases = [SMALL, LARGE, '{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":3}}'].map((json) =>
      on.encodeM2M(json),
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
          // Splice the head of one frame to the tail of another, then change bytes after the prefix.
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

  it('throw only ProtocolErrors in the text form, and never return other content', () => {
    const wire = on.encodeM2MText(LARGE);
    fc.assert(
      fc.property(
        fc.nat(wire.length),
        fc.string({ unit: 'binary', maxLength: 5 }),
        fc.nat(5),
        (at, insert, cut) => {
          const changed = wire.slice(0, at) + insert + wire.slice(at + cut);
          on.codeOf(() => on.readM2MHeader(changed));
          // Without a key only the payload is checked: a changed header may be valid, too.
          let json = LARGE;
          on.codeOf(() => {
            json = on.decodeM2M(changed).json;
          });
          expect(json).toBe(LARGE);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('have the documented error codes', () => {
    const frame = on.encodeM2M(SMALL);
    const codeWith = (at: number, value: number) => on.codeOf(() => on.decodeM2M(frame.with(at, value)));
    expect(codeWith(0, 0x24)).toBe('unknown_prefix');
    expect(codeWith(PREFIX + 2, 0x77)).toBe('unknown_schema');
    expect(codeWith(PREFIX + 3, 0x07)).toBe('unknown_security_mode');
    expect(codeWith(PREFIX + 5, 0x80)).toBe('bad_header'); // a reserved flag
    expect(codeWith(PREFIX + 7, 0x02)).toBe('bad_header'); // HAS_EXTENSIONS
    expect(codeWith(PREFIX + 19, 0x01)).toBe('bad_header'); // a reserved byte
    expect(codeWith(PREFIX + 28, 0x05)).toBe('bad_header'); // bits after the last role
    expect(codeWith(PREFIX + 34, 0xff)).toBe('bad_header'); // the cost's sign
    expect(codeWith(frame.length - 1, 0x20)).toBe('bad_checksum');
    expect(on.codeOf(() => on.decodeM2M(Uint8Array.from([...frame, 0])))).toBe('trailing_bytes');
    expect(on.codeOf(() => on.decodeM2M('#M2M|2|'))).toBe('unknown_prefix');
    expect(on.codeOf(() => on.decodeM2M('#M2M|1|===='))).toBe('bad_base64');
    expect(on.codeOf(() => on.readM2MHeader('#M2M|1|'))).toBe('truncated');
  });
});
