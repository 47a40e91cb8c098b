import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { connect } from '@parlance/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import {
  type Certificate,
  Certificates,
  opensslMissing,
} from '../../../packages/server/src/transport/websocket/testing/certificates.js';
import { run, type Serving, startServing } from '../kit/cli-process.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';

/** `parlance serve --cluster` as processes that show each other certificates. */

const missing = redisMissing ?? opensslMissing;

describe.skipIf(missing !== undefined)(missing ?? 'nodes with certificates', () => {
  let redis: RedisServer;
  let made: Certificates;
  let authority: Certificate;
  let own: Certificate;
  let nodes: readonly Serving[] = [];
  const env = { PARLANCE_TOKEN: 'token', PARLANCE_CLUSTER_SECRET: randomBytes(24).toString('hex') };

  const flagsOf = ({ cert, key }: Certificate) => [
    '--cluster',
    redis.url,
    ...['--peer-cert', cert, '--peer-key', key, '--peer-ca', authority.cert, '--peer-mutual'],
  ];

  beforeAll(async () => {
    redis = await startRedis();
    made = new Certificates();
    authority = made.authority();
    own = made.issue(authority);
    const start = async () => await startServing(flagsOf(own), env);
    nodes = await Promise.all([start(), start()]);
    for (const { log } of nodes) while (!log().includes('"node.joined"')) await pause(20);
  });
  afterAll(async () => {
    await Promise.all(nodes.map(async (node) => await node.stop('SIGKILL')));
    made[Symbol.dispose]();
    await redis[Symbol.asyncDispose]();
  });

  it('lead a session from one to the other', async () => {
    const [owner, landing] = nodes.map(({ url }) => Number(new URL(url).port)) as [number, number];
    let at = owner;
    await using front = await createCuttingProxy(() => at);
    await using session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      token: 'token',
      reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    });
    const { id } = session;
    at = landing;
    front.cut();
    expect((await session.request('after the cut')).text).not.toBe('');
    expect(session.id).toBe(id);
    expect(nodes[1]?.log()).toContain('"session.led"');
  });

  it('serve others of their authority only', async () => {
    const address = /"address":"(wss:[^"]+)"/.exec(nodes[0]?.log() ?? '')?.[1] as string;
    const answerTo = (certificate: Certificate | undefined) =>
      new Promise<string>((resolve) => {
        const { hostname, port } = new URL(address);
        const ca = readFileSync(authority.cert);
        const shown = certificate && {
          cert: readFileSync(certificate.cert),
          key: readFileSync(certificate.key),
        };
        const socket = connectTls({ host: hostname, port: Number(port), ca, ...shown });
        socket.on('error', () => {});
        socket.once('secureConnect', () => socket.write('GET / HTTP/1.1\r\nHost: node\r\n\r\n'));
        let answer = '';
        socket.on('data', (chunk: Buffer) => {
          answer += chunk.toString('latin1');
        });
        socket.once('close', () => resolve(answer.split('\r\n', 1)[0] as string));
      });
    expect(await answerTo(own)).toBe('HTTP/1.1 426 Upgrade Required');
    expect(await answerTo(undefined)).toBe('');
    expect(await answerTo(made.issue(made.authority()))).toBe('');
  });

  it('say in one sentence which flag is wrong', async () => {
    const wide = { ...env, COLUMNS: '1000' };
    const wrongKey = { cert: own.cert, key: made.issue(authority).key };
    const cases = [
      [['--cluster', redis.url, '--peer-mutual'], 'with --peer-cert too'],
      [flagsOf(wrongKey), 'is not the key of'],
      [flagsOf(made.issue(authority, 'DNS:elsewhere')), 'does not name 127.0.0.1 of --host'],
      [['--peer-cert', own.cert, '--peer-key', own.key], 'need --cluster'],
    ] as const;
    const finished = cases.map(([flags]) => run(['serve', '--port', '0', ...flags], { env: wide }));
    for (const [i, { code, stdout, stderr }] of (await Promise.all(finished)).entries()) {
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(cases[i]?.[1]);
      expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    }
  });
});
