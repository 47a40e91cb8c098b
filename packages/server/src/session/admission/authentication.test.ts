import type { Logger } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import type { Authenticate, Credentials } from './admission.js';
import { identify } from './authentication.js';

const credentials: Credentials = {
  token: 'a-secret-token',
  origin: undefined,
  agentId: 'agent',
  ip: '203.0.113.7',
  headers: {},
};

const NOW = Date.UTC(2026, 10, 24);

async function run(
  authenticate: Authenticate | undefined,
  other: Partial<Credentials> = {},
  forwarded = false,
) {
  const logged: unknown[] = [];
  const log = (...line: unknown[]) => void logged.push(line);
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const identity = await identify({ ...credentials, ...other }, forwarded, {
    authenticate,
    logger,
    now: () => NOW,
  });
  return { identity, logged };
}

describe('a client is identified', () => {
  it('by what authenticate returns for its credentials', async () => {
    let seen: unknown;
    const { identity } = await run((given) => {
      seen = given;
      return { principal: 'u1', agentId: 'granted', expiresAt: NOW + 1 };
    });
    expect(identity).toEqual({ principal: 'u1', agentId: 'granted', expiresAt: NOW + 1 });
    expect(seen).toEqual(credentials);
  });

  it.each([Infinity, Number.MAX_SAFE_INTEGER + 1])(
    'for good if its credentials expire at %s',
    async (expiresAt) => {
      const { identity } = await run(() => ({ principal: 'u1', expiresAt }));
      expect(identity).toEqual({ principal: 'u1', expiresAt: undefined });
    },
  );

  it.each([
    ['null', () => null],
    ['undefined', () => undefined],
    ['false', () => false as const],
    ['an empty string', () => '' as const],
    ['a promise of null', async () => null],
    ['an identity that ended in 2001', () => ({ principal: 'u1', expiresAt: Date.UTC(2001, 0) })],
    ['an identity that ends now', () => ({ principal: 'u1', expiresAt: NOW })],
  ])('by nothing if it returns %s', async (_what, authenticate) => {
    expect((await run(authenticate)).identity).toBeUndefined();
  });

  it.each([
    ['a time that is not a number', () => ({ principal: 'u1', expiresAt: '2099' }) as never],
    ['true', () => true as never],
    ['an end in seconds', () => ({ principal: 'u1', expiresAt: NOW / 1_000 + 3_600 })],
    ['an end before 2001', () => ({ principal: 'u1', expiresAt: Date.UTC(2001, 0) - 1 })],
    ['an identity that ends at no time', () => ({ principal: 'u1', expiresAt: Number.NaN })],
    ['no principal', () => ({}) as never],
    ['an empty principal', () => ({ principal: '' })],
    ['a principal that is not a string', () => ({ principal: 7 }) as never],
    ['a principal of 257 characters', () => ({ principal: 'x'.repeat(257) })],
    ['an agent ID that is null', () => ({ principal: 'u1', agentId: null }) as never],
    ['an agent ID that is a number', () => ({ principal: 'u1', agentId: 7 }) as never],
    ['an agent ID that is a symbol', () => ({ principal: 'u1', agentId: Symbol('a') }) as never],
    ['an agent ID that is an object', () => ({ principal: 'u1', agentId: { toString: () => 'a' } }) as never],
    ['an empty agent ID', () => ({ principal: 'u1', agentId: '' })],
    ['an agent ID of 129 characters', () => ({ principal: 'u1', agentId: 'x'.repeat(129) })],
    ['an agent ID that no client can read', () => ({ principal: 'u1', agentId: 'a b' })],
    ['half a surrogate pair', () => ({ principal: 'u1', agentId: '\ud800' })],
    ['an end that is a string', () => ({ principal: 'u1', expiresAt: '2001' }) as never],
    ['a string', () => 'u1' as never],
  ])('neither by %s nor as one that is to be refused', async (_what, authenticate) => {
    expect((await run(authenticate)).identity).toBe('failed');
  });

  it('by a principal of 256 characters and an agent ID of 128', async () => {
    const longest = { principal: 'x'.repeat(256), agentId: 'x'.repeat(128) };
    expect((await run(() => longest)).identity).toMatchObject(longest);
  });

  it('by an identity whose properties are read once', async () => {
    let asked = 0;
    const changing = {
      get principal() {
        return `u${++asked}`;
      },
    };
    expect((await run(() => changing)).identity).toMatchObject({ principal: 'u1' });
    const throwing = {
      get principal(): string {
        throw new Error('gone');
      },
    };
    const { identity, logged } = await run(() => throwing);
    expect([identity, JSON.stringify(logged)]).toEqual(['failed', expect.stringContaining('auth.failed')]);
  });

  it('as failed if authenticate throws, and the log does not quote the token', async () => {
    const { identity, logged } = await run(({ token }) => {
      throw new Error(`cannot parse ${token}: not a JWT`);
    });
    expect(identity).toBe('failed');
    expect(JSON.stringify(logged)).toContain('auth.failed');
    expect(JSON.stringify(logged)).not.toContain('a-secret-token');
    expect(JSON.stringify(await run(() => Promise.reject('a-secret-token')))).not.toContain('a-secret-token');
  });
});

describe('without authenticate', () => {
  it('every client on this machine has a principal of its own', async () => {
    const first = await run(undefined, { ip: '127.0.0.1' });
    const second = await run(undefined, { ip: '::1' });
    expect(first.identity).toMatchObject({ principal: expect.stringMatching(/^local-/) });
    expect(second.identity).not.toEqual(first.identity);
  });

  it.each([
    ['from another machine', { ip: '203.0.113.7' }, false],
    ['through a proxy on this machine', { ip: '127.0.0.1' }, true],
    ['from an unknown address', { ip: '' }, false],
  ])('a client is refused %s', async (_who, other, forwarded) => {
    expect((await run(undefined, other, forwarded)).identity).toBeUndefined();
  });
});
