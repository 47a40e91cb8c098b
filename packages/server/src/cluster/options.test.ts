import { describe, expect, it } from 'vitest';
import { createServer } from '../create-server.js';
import { memoryCluster } from '../engine/memory.js';
import { cluster } from './feature.js';
import { type ClusterOptions, isSafe, resolveClusterOptions } from './options.js';

const engine = { ...memoryCluster(), secret: undefined };
const SECRET = 'sixteen bytes ...';
const tls = { key: 'k', cert: 'c' };

describe('the options of a node', () => {
  it.each<[string, ClusterOptions | undefined, string]>([
    ['no secret', {}, 'cluster.secret is required'],
    ['nothing', undefined, 'cluster.secret is required'],
    ['no secret in a list', { secret: [] }, 'cluster.secret is required'],
    ['a secret of 15 bytes', { secret: 'x'.repeat(15) }, 'at least 16'],
    ['a short secret in a list', { secret: [SECRET, new Uint8Array(15)] }, 'at least 16'],
    ['a secret of another kind', { secret: 5 as never }, 'at least 16'],
    ['an unknown option', { secret: SECRET, adress: 'x' } as never, 'adress'],
    ['a port out of range', { secret: SECRET, listen: { port: 65_536 } }, 'cluster.listen.port'],
    ['plain ws beyond loopback', { secret: SECRET, listen: { host: '10.0.0.7' } }, 'cluster.tls'],
    ['a plain address beyond loopback', { secret: SECRET, advertise: 'ws://10.0.0.7:1' }, 'cluster.tls'],
    ['every address without one to advertise', { secret: SECRET, listen: { host: '0.0.0.0' } }, 'advertise'],
    ['an address with a path', { secret: SECRET, advertise: 'wss://a/b' }, 'cluster.advertise must be'],
    ['an address with a user', { secret: SECRET, advertise: 'wss://u:p@a' }, 'cluster.advertise must be'],
    ['an address of HTTP', { secret: SECRET, advertise: 'https://a' }, 'cluster.advertise must be'],
    ['an address that is none', { secret: SECRET, advertise: '10.0.0.7' }, 'cluster.advertise must be'],
  ])('is refused with %s', (_what, node, message) => {
    const expected = { code: 'invalid_option', message: expect.stringContaining(message) };
    expect(() => resolveClusterOptions(engine, node)).toThrow(expect.objectContaining(expected));
  });

  it.each<[string, ClusterOptions]>([
    ['a secret of 16 bytes', { secret: 'x'.repeat(16) }],
    ['a list of secrets', { secret: [SECRET, new Uint8Array(16)] }],
    ['ws on loopback', { secret: SECRET, listen: { host: '127.0.0.1' }, advertise: 'ws://[::1]:1' }],
    ['ws elsewhere, if insecure', { secret: SECRET, listen: { host: '10.0.0.7' }, insecure: true }],
    ['wss elsewhere', { secret: SECRET, listen: { host: '10.0.0.7' }, tls }],
    ['every address and one to advertise', { secret: SECRET, listen: { host: '::' }, advertise: 'wss://a' }],
  ])('takes %s', (_what, node) => {
    expect(resolveClusterOptions(engine, node)).toBeDefined();
  });

  it('needs no secret in one process, and needs an engine', () => {
    expect(resolveClusterOptions(memoryCluster(), undefined).secrets).toHaveLength(1);
    expect(() => resolveClusterOptions(undefined, undefined)).toThrow('option engine');
    expect(() => createServer({ features: [cluster({ secret: SECRET })] })).toThrow('option engine');
    expect(() => createServer({ engine: {} as never, features: [cluster()] })).toThrow('such as redis(…)');
  });
});

it.each<[string, boolean, boolean]>([
  ['wss://10.0.0.7:1', false, true],
  ['ws://127.0.0.1:1', false, true],
  ['ws://[::1]:1', false, true],
  ['ws://localhost:1', false, true],
  ['ws://10.0.0.7:1', false, false],
  ['ws://10.0.0.7:1', true, true],
  ['ws://127.0.0.1.evil.example:1', false, false],
  ['http://127.0.0.1:1', true, false],
  ['', true, false],
])('a node at %j is contacted, if insecure is %j: %j', (address, isInsecure, expected) => {
  expect(isSafe(address, isInsecure)).toBe(expected);
});
