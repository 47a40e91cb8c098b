import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { platform } from '#platform';
import { concatBytes } from '../../base/bytes.js';
import { errorCode } from '../../testing/error-code.js';
import { encodeAvp } from './frame.js';
import { type AvpDescription, decodeAvpHead } from './head.js';
import { writeAvpHeader } from './header.js';
import { encodeMetadata } from './metadata.js';
import { BodyBuffer, encodeTrailer, encodeTransferHead, TransferReader } from './transfer.js';

const DESCRIPTION = {
  shape: [3, 5],
  dtype: 'int8',
  payloadType: 'hidden_state',
  metadata: { modelId: 'm', extra: { a: 'b' } },
} as const satisfies AvpDescription;
const PAYLOAD = Uint8Array.from({ length: 15 }, (_, i) => i * 7);

/** A transfer with its checksum before the payload, after it, or without one. */
const transfer = (checksum: 'before' | 'after' | 'missing'): Uint8Array => {
  if (checksum === 'before') return encodeAvp({ ...DESCRIPTION, data: PAYLOAD });
  const frame = concatBytes([encodeTransferHead(DESCRIPTION, PAYLOAD.length), PAYLOAD]);
  return checksum === 'missing' ? frame : concatBytes([frame, encodeTrailer(platform.crc32(PAYLOAD))]);
};
const read = (bytes: Uint8Array, cuts: readonly number[] = [], totalLength = bytes.length) => {
  const reader = new TransferReader(totalLength);
  const body: Uint8Array[] = [];
  let at = 0;
  for (const size of [...cuts, bytes.length]) {
    body.push(reader.push(bytes.subarray(at, at + size)));
    at += size;
  }
  return { reader, body: concatBytes(body) };
};
const changed = (bytes: Uint8Array, at: number, to: number) => {
  const copy = bytes.slice();
  copy[at < 0 ? copy.length + at : at] = to;
  return copy;
};

describe('a transfer', () => {
  it.each(['before', 'after', 'missing'] as const)(
    'is the same in any pieces, with its checksum %s',
    (checksum) => {
      const bytes = transfer(checksum);
      fc.assert(
        fc.property(fc.array(fc.nat(9)), (cuts) => {
          const { reader, body } = read(bytes, cuts);
          expect(body).toEqual(PAYLOAD);
          expect(reader.head).toMatchObject({ shape: [3, 5], dtype: 'int8', bodyLength: 15 });
          expect(reader.expectedChecksum).toBe(checksum === 'missing' ? undefined : platform.crc32(PAYLOAD));
          reader.verify();
        }),
      );
    },
  );

  it('returns its bytes as views', () => {
    const bytes = transfer('after');
    expect(read(bytes).body.buffer).toBe(bytes.buffer);
  });

  it.each(['before', 'after'] as const)('with damaged bytes is refused, with its checksum %s', (checksum) => {
    const bytes = transfer(checksum);
    const at = bytes.length - (checksum === 'after' ? 6 : 2);
    expect(errorCode(() => read(changed(bytes, at, 255)).reader.verify())).toBe('bad_checksum');
    if (checksum === 'after')
      expect(errorCode(() => read(changed(bytes, -1, 255)).reader.verify())).toBe('bad_checksum');
  });

  it('with contradicting lengths is refused as soon as they have arrived', () => {
    const bytes = transfer('missing');
    const beginning = bytes.subarray(0, 12);
    const codeFor = (totalLength: number) => errorCode(() => new TransferReader(totalLength).push(beginning));
    expect(codeFor(bytes.length)).toBe('none');
    expect(codeFor(bytes.length + 4)).toBe('none');
    expect(codeFor(bytes.length - 1)).toBe('truncated');
    for (const extra of [1, 3, 5, 2 ** 40]) expect(codeFor(bytes.length + extra)).toBe('trailing_bytes');
  });

  it('must not hold its checksum twice', () => {
    const bytes = concatBytes([transfer('before'), encodeTrailer(1)]);
    expect(errorCode(() => read(bytes))).toBe('trailing_bytes');
  });

  it.each([
    ['of another format', { at: 0, to: 0 }, 'bad_header'],
    ['of another version', { at: 2, to: 9 }, 'unknown_version'],
    ['with reserved flags', { at: 3, to: 0x80 }, 'bad_header'],
    ['of a dtype that is none', { at: 13, to: 9 }, 'bad_message'],
  ] as const)('%s is refused by its head', (_what, { at, to }, code) => {
    const head = encodeTransferHead({ dtype: 'int8', payloadType: 'hidden_state', shape: [9] }, 9);
    expect(errorCode(() => new TransferReader(head.length + 9).push(changed(head, at, to)))).toBe(code);
  });

  it.each([
    ['2^62 bytes', [2 ** 31, 2 ** 31]],
    ['one byte more than is sent', [10]],
    ['nothing', [0]],
  ] as const)('with %s in its shape is refused by its head', (_what, shape) => {
    const { metadata } = decodeAvpHead(encodeTransferHead({ dtype: 'int8', payloadType: 'hidden_state' }, 0));
    const fields = { metadata, payloadType: 'hidden_state', dtype: 'int8', shape } as const;
    const encoded = encodeMetadata({ ...fields, compression: '', checksum: undefined });
    const head = new Uint8Array(12 + encoded.length);
    writeAvpHeader(head, 0, encoded.length + 9, encoded.length);
    head.set(encoded, 12);
    expect(errorCode(() => new TransferReader(head.length + 9).push(head))).toBe('bad_tensor');
  });

  it('keeps twelve bytes if only its header has arrived', () => {
    const reader = new TransferReader(1000);
    expect(reader.push(new Uint8Array(0)).length).toBe(0);
    expect(reader.head).toBeUndefined();
  });
});

describe('memory for a body', () => {
  it('returns the bytes that were appended', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 50 })), (parts) => {
        const whole = concatBytes(parts.length === 0 ? [new Uint8Array(0)] : parts);
        const buffer = new BodyBuffer(whole.length);
        for (const part of parts) buffer.append(part);
        expect(buffer.finish()).toEqual(whole);
      }),
    );
  });

  it('is not allocated for bytes that were only announced', () => {
    const buffer = new BodyBuffer(2 ** 30);
    buffer.append(new Uint8Array(1000));
    expect(buffer.finish().length).toBe(16_000);
    const small = new BodyBuffer(1001);
    small.append(new Uint8Array(1000));
    expect(small.finish().length).toBe(1001);
  });
});
