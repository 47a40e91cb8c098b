import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeLinkMessage, encodeLinkMessage } from './message.js';

const code = (run: () => unknown): string => {
  try {
    run();
    return 'none';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
};

describe('a message between nodes', () => {
  it('that is malformed is refused as such', () => {
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array(), fc.string()), (data) => {
        expect(['none', 'bad_message']).toContain(code(() => decodeLinkMessage(data)));
      }),
    );
    const head = (text: string) => Buffer.concat([Buffer.from([0, 0, 0, text.length]), Buffer.from(text)]);
    for (const text of ['', '{}', '[]', '[1]', '["s"]', '["s",1]', '[1,"part"]', '["s","part"'])
      expect(code(() => decodeLinkMessage(head(text)))).toBe('bad_message');
    expect(code(() => decodeLinkMessage(head('["s","part"]')))).toBe('none');
    expect(code(() => decodeLinkMessage(Uint8Array.of(0, 0, 0, 9, 91, 93)))).toBe('bad_message');
  });

  it('has a head of 16 KiB and not one byte more', () => {
    const sized = (size: number) =>
      encodeLinkMessage('s', 'part', ['x'.repeat(size - '["s","part",""]'.length)]);
    expect(code(() => decodeLinkMessage(sized(16 * 1024)))).toBe('none');
    expect(code(() => decodeLinkMessage(sized(16 * 1024 + 1)))).toBe('bad_message');
  });
});
