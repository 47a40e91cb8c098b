import { cluster, createServer } from '@parlance/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Certificate,
  Certificates,
  opensslMissing,
} from '../../../server/src/transport/websocket/testing/certificates.js';
import { ExitCode } from '../base/failure.js';
import { type ClusterFlags, clusterOptions, namingFlags, type PeerTlsFlags } from './cluster-options.js';

const SECRET = 'a secret of 20 bytes';
const BASE: ClusterFlags = {
  url: 'redis://127.0.0.1:1',
  peerPort: 0,
  advertise: undefined,
  isInsecure: false,
  secret: SECRET,
};

/** The message with which flags are refused, which has to be one sentence. */
async function refusal(flags: Partial<ClusterFlags>, host = '127.0.0.1'): Promise<string> {
  const error: Error = await clusterOptions({ ...BASE, ...flags }, host)
    .then(({ engine, node }) => namingFlags(() => createServer({ engine, features: [cluster(node)] })))
    .then(
      () => expect.fail('the flags were accepted'),
      (thrown: Error) => thrown,
    );
  expect(error).toMatchObject({ name: 'CommandFailure', exitCode: ExitCode.USAGE });
  expect(error.message).not.toMatch(/\n|\bcluster\.\w/);
  return error.message;
}

describe('the flags of a cluster are refused', () => {
  it.each<[string, Partial<ClusterFlags>, string, string?]>([
    ['without a secret', { secret: undefined }, 'set PARLANCE_CLUSTER_SECRET'],
    ['with an empty secret', { secret: ',' }, 'set PARLANCE_CLUSTER_SECRET'],
    ['with a short secret', { secret: 'x'.repeat(15) }, 'PARLANCE_CLUSTER_SECRET needs at least 16 bytes'],
    ['with a short one of two secrets', { secret: `${SECRET},short` }, 'at least 16 bytes for each'],
    ['with ws beyond loopback', {}, 'set --peer-cert and --peer-key, or --peer-insecure', '10.0.0.7'],
    [
      'if they advertise ws beyond loopback',
      { advertise: 'ws://10.0.0.7:1' },
      'set --peer-cert and --peer-key, or --peer-insecure',
    ],
    [
      'for every address without one to advertise',
      { isInsecure: true },
      '--advertise is required',
      '0.0.0.0',
    ],
    ['with an address that is none', { advertise: '10.0.0.7' }, '--advertise must be an address such as wss'],
    ['with an address of HTTP', { advertise: 'https://a' }, '--advertise must be an address such as wss'],
  ])('%s', async (_what, flags, message, host) => {
    expect(await refusal(flags, host)).toContain(message);
  });
});

it('flags without TLS are the options of a node', async () => {
  const { node } = await clusterOptions(
    { ...BASE, secret: `${SECRET},${SECRET}2`, peerPort: 7 },
    '127.0.0.1',
  );
  expect(node).toMatchObject({
    listen: { host: '127.0.0.1', port: 7 },
    secret: [SECRET, `${SECRET}2`],
    insecure: false,
    tls: undefined,
  });
});

describe.skipIf(opensslMissing !== undefined)(opensslMissing ?? 'certificates between nodes', () => {
  let made: Certificates;
  let ca: Certificate;
  let own: Certificate;
  beforeAll(() => {
    made = new Certificates();
    ca = made.authority();
    own = made.issue(ca, 'IP:127.0.0.1,IP:10.0.0.7,DNS:node1');
  });
  afterAll(() => made[Symbol.dispose]());

  const withTls = (tls: Partial<PeerTlsFlags>, more: Partial<ClusterFlags> = {}, host?: string) =>
    refusal({ tls: { isMutual: false, ...tls }, ...more }, host);

  it('are the options of the port and of connections', async () => {
    const flags = { ...BASE, tls: { ...own, ca: ca.cert, isMutual: true }, advertise: 'wss://node1:7946' };
    const { node } = await clusterOptions(flags, '0.0.0.0');
    expect(Object.keys(node?.tls ?? {}).sort()).toEqual([
      'ca',
      'cert',
      'key',
      'rejectUnauthorized',
      'requestCert',
    ]);
    const plain = await clusterOptions({ ...BASE, tls: { ...own, isMutual: false } }, '10.0.0.7');
    expect(Object.keys(plain.node?.tls ?? {}).sort()).toEqual(['cert', 'key']);
  });

  it('are complete', async () => {
    expect(await withTls({ cert: own.cert })).toContain('with --peer-key too');
    expect(await withTls({ key: own.key })).toContain('with --peer-cert too');
    expect(await withTls({ ca: ca.cert })).toContain('with --peer-cert too');
    expect(await withTls({ isMutual: true })).toContain('with --peer-cert too');
    expect(await withTls({ ...own, isMutual: true })).toContain('--peer-mutual needs --peer-ca');
    expect(await withTls(own, { isInsecure: true })).toContain('--peer-insecure is for nodes without');
  });

  it('are files in PEM that belong together', async () => {
    const no = made.file('no certificate');
    const gone = '/no/such/file.pem';
    expect(await withTls({ ...own, cert: gone })).toContain(`--peer-cert: ${gone} cannot be read (ENOENT)`);
    expect(await withTls({ ...own, key: gone })).toContain(`--peer-key: ${gone} cannot be read (ENOENT)`);
    expect(await withTls({ ...own, ca: gone })).toContain(`--peer-ca: ${gone} cannot be read (ENOENT)`);
    expect(await withTls({ ...own, cert: no })).toContain(`--peer-cert: ${no} is not a certificate in PEM`);
    expect(await withTls({ ...own, ca: no })).toContain(`--peer-ca: ${no} is not a certificate in PEM`);
    expect(await withTls({ ...own, key: no })).toContain(`--peer-key: ${no} is not the key of`);
    const other = made.issue(ca);
    expect(await withTls({ ...own, key: other.key })).toContain(`--peer-key: ${other.key} is not the key of`);
  });

  it('are valid, and name the address at which others connect', async () => {
    expect(await withTls(made.issue(ca, 'IP:127.0.0.1', -1))).toMatch(/has expired at .*; renew it/);
    expect(await withTls(own, {}, '10.0.0.8')).toContain('--peer-cert does not name 10.0.0.8 of --host');
    expect(await withTls(own, { advertise: 'wss://node2:1' })).toContain(
      'does not name node2 of --advertise',
    );
    expect(await withTls(own, { advertise: 'wss://[::1]:1' })).toContain('does not name ::1 of --advertise');
    expect(await withTls(own, { advertise: 'ws://127.0.0.1:1' })).toContain('must begin with wss:');
    expect(await withTls(own, {}, '0.0.0.0')).toContain('--advertise is required');
    expect(await withTls(own, { advertise: '10.0.0.7' })).toContain('--advertise must be an address');
  });
});
