import { BodyCodec } from '@parlance/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bodyParts, decodeRelayMessage, encodeRelayMessage, readBody } from './relay-message.js';

const code = (run: () => unknown): string => {
  try {
    run();
    return 'none';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
};

describe('a message between nodes', () => {
  it('carries every body as it is', () => {
    fc.assert(
      fc.property(
        fc.uint8Array(),
        fc.option(fc.uint8Array(), { nil: undefined }),
        fc.boolean(),
        fc.nat(),
        (bytes, metadata, secret, originalLength) => {
          const body = { codec: BodyCodec.PLAIN, bytes, metadata, secret, originalLength };
          const { fields, parts, charge } = bodyParts(body);
          const message = decodeRelayMessage(encodeRelayMessage('part', [7, ...fields], ...parts));
          expect([message.type, message.fields[0]]).toEqual(['part', 7]);
          const read = readBody(message.fields.slice(1), message.bytes);
          expect({ ...read, bytes: [...read.bytes], metadata: read.metadata && [...read.metadata] }).toEqual({
            ...body,
            bytes: [...bytes],
            content: undefined,
            metadata: metadata && [...metadata],
            charge,
          });
        },
      ),
    );
  });

  it('that is malformed is refused as such', () => {
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array(), fc.string()), (data) => {
        expect(['none', 'bad_message']).toContain(code(() => decodeRelayMessage(data)));
      }),
    );
    const head = (text: string) => Buffer.concat([Buffer.from([0, 0, 0, text.length]), Buffer.from(text)]);
    for (const text of ['', '{}', '[]', '[1]', '["part"'])
      expect(code(() => decodeRelayMessage(head(text)))).toBe('bad_message');
    expect(code(() => decodeRelayMessage(head('["part"]')))).toBe('none');
    expect(code(() => decodeRelayMessage(Uint8Array.of(0, 0, 0, 9, 91, 93)))).toBe('bad_message');
  });

  it('has a head of 16 KiB and not one byte more', () => {
    const sized = (size: number) => encodeRelayMessage('part', ['x'.repeat(size - '["part",""]'.length)]);
    expect(code(() => decodeRelayMessage(sized(16 * 1024)))).toBe('none');
    expect(code(() => decodeRelayMessage(sized(16 * 1024 + 1)))).toBe('bad_message');
  });

  it.each([
    [['1', 0, 0, -1]],
    [[1, -1, 0, -1]],
    [[1, 0.5, 0, -1]],
    [[1, 0, 0, 4]],
    [[1, 0, 0, -2]],
    [[1, 0, 0]],
    [[]],
  ])('with the body %j of three bytes is refused', (fields) => {
    expect(code(() => readBody(fields, new Uint8Array(3)))).toBe('bad_message');
  });
});
