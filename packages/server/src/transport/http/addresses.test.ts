import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressKey, clientAddress, createTrustedProxies, isLoopback } from './addresses.js';

const requestFrom = (remoteAddress: string | undefined, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage;

describe('the address of a client', () => {
  const proxies = createTrustedProxies(['127.0.0.1', '10.0.0.0/8', 'fd00::/8']);

  it.each([
    ['203.0.113.7', undefined, '203.0.113.7'],
    // A header from an address that is not a proxy is ignored.
    ['203.0.113.7', '198.51.100.1', '203.0.113.7'],
    ['10.1.2.3', '198.51.100.1', '198.51.100.1'],
    ['::ffff:10.1.2.3', '198.51.100.1', '198.51.100.1'],
    ['fd00::1', '2001:db8::1', '2001:db8::1'],
    // The client has written the first entry itself.
    ['10.1.2.3', '1.1.1.1, 198.51.100.1', '198.51.100.1'],
    ['10.1.2.3', '1.1.1.1, 198.51.100.1, 10.9.9.9', '198.51.100.1'],
    // All entries are trusted, so the leftmost counts.
    ['10.1.2.3', '10.1.1.1,10.2.2.2', '10.1.1.1'],
    ['10.1.2.3', '198.51.100.1:4711', '198.51.100.1'],
    ['10.1.2.3', '[2001:db8::1]:4711', '2001:db8::1'],
    ['10.1.2.3', '', '10.1.2.3'],
    ['10.1.2.3', 'unknown', '10.1.2.3'],
    ['10.1.2.3', '1.1.1.1, __proto__', '10.1.2.3'],
    ['fe80::1%eth0', undefined, 'fe80::1'],
    [undefined, '1.1.1.1', ''],
  ])('of %s that forwards for %s is %s', (remote, forwarded, expected) => {
    expect(clientAddress(requestFrom(remote, forwarded), proxies)).toBe(expected);
  });

  it('is found in any header without an error', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (header) => {
        expect(typeof addressKey(clientAddress(requestFrom('10.1.2.3', header), proxies))).toBe('string');
      }),
    );
  });

  it.each(['', 'example.org', '10.0.0.0/33', '::/129', '10.0.0.0/8/8', '10.0.0.0/', '10.0.0.0/x'])(
    'is not forwarded by %s, which is not an address',
    (entry) => {
      expect(() => createTrustedProxies([entry])).toThrow(
        expect.objectContaining({ code: 'invalid_option' }),
      );
    },
  );
});

describe('the limits of an address count', () => {
  it.each([
    ['203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::ffff', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['', ''],
  ])('for %s as %s', (address, key) => {
    expect(addressKey(address)).toBe(key);
  });
});

it.each([
  ['127.0.0.1', true],
  ['127.1.2.3', true],
  ['::1', true],
  ['::ffff:127.0.0.1', true],
  ['128.0.0.1', false],
  ['127.evil.example', false],
  ['', false],
  [undefined, false],
])('%s is loopback: %s', (address, expected) => {
  expect(isLoopback(address)).toBe(expected);
});
