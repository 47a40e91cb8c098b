import { describe, expect, it } from 'vitest';
import { addForeignMethods, foreignOption } from './foreign-names.js';

const FOREIGN = { cors: 'origins has them', port: 'listen opens it' };

describe('an option of another library', () => {
  it('is answered with ours', () => {
    expect(foreignOption({ path: '/', cors: {} }, { path: 'text' }, FOREIGN)).toMatchObject({
      code: 'invalid_option',
      message: 'unknown option "cors": origins has them',
    });
  });

  it.each<unknown>([
    undefined,
    null,
    'text',
    5,
    {},
    { path: '/' },
    { pth: '/' },
    { toString: 1 },
    { port: 1, isKnown: true },
  ])('is not among %j', (given) => {
    expect(foreignOption(given, { path: 'text', port: 'number' }, FOREIGN)).toBeUndefined();
  });
});

describe('a method of another library', () => {
  class Ours {
    close() {
      return 'closed';
    }
  }
  addForeignMethods(Ours.prototype, 'server', { close: 'no', to: 'use group', broadcast: 'use group' });
  const ours = new Ours() as Ours &
    Record<'to' | 'broadcast', ((name?: string) => never) & { emit(): never }>;

  it('throws what to write, also if it is looked at as an object', () => {
    const message = /^server\.(to|broadcast) does not exist: use group$/;
    expect(() => ours.to('lobby')).toThrow(message);
    expect(() => ours.broadcast.emit()).toThrow(message);
    expect(() => ours.to()).toThrow(expect.objectContaining({ code: 'unsupported' }));
  });

  it('takes the place of nothing, and is not listed', () => {
    expect(ours.close()).toBe('closed');
    expect([...Object.keys(ours), ...Object.keys(Ours.prototype)]).toEqual([]);
    ours.to = (() => 'mine') as never;
    expect(ours.to()).toBe('mine');
  });
});
