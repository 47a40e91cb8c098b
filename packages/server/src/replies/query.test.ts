import { describe, expect, it } from 'vitest';
import { readQuery } from './query.js';

const code = (metadata: Parameters<typeof readQuery>[0]): unknown => {
  try {
    return readQuery(metadata);
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe('a query of @replies', () => {
  it('is to follow from a part on, to stop, or to list', () => {
    expect(code({ follow: { id: 'reply_1' } })).toEqual({
      kind: 'follow',
      target: { id: 'reply_1' },
      after: 0,
    });
    expect(code({ follow: { name: 'a', after: 7 } })).toMatchObject({ kind: 'follow', after: 7 });
    expect(code({ stop: { id: 'reply_1' } })).toMatchObject({ kind: 'stop' });
    expect(code({ list: {}, traceparent: '00-1-2-00' })).toEqual({ kind: 'list' });
  });

  it('is the first one of several, and null counts as absent', () => {
    expect(code({ list: {}, stop: { id: 'reply_1' }, follow: { name: 'a' } })).toMatchObject({
      kind: 'follow',
    });
    expect(code({ list: {}, stop: { id: 'reply_1' } })).toMatchObject({ kind: 'stop' });
    expect(code({ follow: { name: 'a', after: null } })).toMatchObject({ kind: 'follow', after: 0 });
  });

  it.each([
    [{ follow: { id: 'reply_1' }, after: 3 }],
    [{ follow: { id: 'reply_1', from: 3 } }],
    [{ follow: { id: 'reply_1', after: -1 } }],
    [{ follow: { id: 'reply_1', after: '3' } }],
    [{ stop: { id: 'reply_1', after: 3 } }],
  ])('is refused if a member would have no effect: %j', (metadata) => {
    expect(code(metadata)).toBe('unsupported');
  });

  it('is unsupported if it is another one', () => {
    expect(code({})).toBe('unsupported');
    expect(code({ follow: 'reply_1' })).toBe('unsupported');
  });
});
