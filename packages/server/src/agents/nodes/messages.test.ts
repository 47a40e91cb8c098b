import { BodyCodec } from '@parlance/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeLinkMessage, encodeLinkMessage } from '../../cluster/link/message.js';
import { AGENTS, bodyParts, readBody } from './messages.js';

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
          const message = decodeLinkMessage(encodeLinkMessage(AGENTS, 'part', [7, ...fields], ...parts));
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
