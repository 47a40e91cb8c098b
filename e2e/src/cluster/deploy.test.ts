import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments, parse as parseYaml } from 'yaml';
import { freePort, run } from '../kit/cli-process.js';
import { configurationOf } from '../proxies/proxy-server.js';

/** The statements of `deploy/` about the command line and times have to be true, and the same everywhere. */

const read = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../../deploy/${name}`, import.meta.url)), 'utf8');

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface Container {
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly valueFrom: object }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly readinessProbe: Probe;
  readonly livenessProbe: Probe;
  readonly startupProbe: Probe;
  readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
}
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly stringData?: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: every kind has a specification of its own.
  readonly spec?: any;
}

const manifestsOf = (name: string) =>
  parseAllDocuments(read(name)).map((document): Manifest => {
    expect(document.errors).toEqual([]);
    expect(document.warnings).toEqual([]);
    return document.toJS();
  });
const manifests = manifestsOf('kubernetes/parlance.yaml');
const yaml = (name: string) => parseYaml(read(name), { merge: true, strict: true });
const [compose, composePostgres, composeSqlite] = ['', '.postgres', '.sqlite'].map((name) =>
  yaml(`compose${name}.yaml`),
);
/** Services that run a server. */
const servers = [
  compose.services.node1,
  compose.services.node2,
  composePostgres.services.node1,
  composePostgres.services.node2,
  composeSqlite.services.server,
];
const kind = (name: string) => manifests.find((each) => each.kind === name) as Manifest;
const pod = kind('Deployment').spec.template;
const container: Container = pod.spec.containers[0];

const data = mkdtempSync(join(tmpdir(), 'parlance-deploy-'));
afterAll(() => rmSync(data, { recursive: true }));
let help = '';
beforeAll(async () => {
  help = (await run(['serve', '--help'], { env: { COLUMNS: '200' } })).stdout;
});

/** The values of `--name=value`, and `true` for `--name`. */
function flagsOf(args: readonly string[]): ReadonlyMap<string, string | true> {
  expect(args[0]).toBe('serve');
  return new Map(
    args.slice(1).map((arg) => {
      const [name = '', value] = arg.split('=', 2);
      return [name, value ?? true];
    }),
  );
}

const SERVICES = [
  ['Kubernetes', container.args],
  ['the first node of Compose', compose.services.node1.command],
  ['the second node of Compose', compose.services.node2.command],
  ['the first node of Compose with Postgres', composePostgres.services.node1.command],
  ['the second node of Compose with Postgres', composePostgres.services.node2.command],
  ['the server of Compose with SQLite', composeSqlite.services.server.command],
] as const;

describe('the flags', () => {
  it.each(SERVICES)('for %s are those of the command line', (_name, args) => {
    for (const [name, value] of flagsOf(args)) {
      const line = help.split('\n').find((text) => text.includes(`${name} `));
      expect(line, name).toBeDefined();
      expect(/ <\w+>| <\w+\.\.\.>/.test(line?.slice(line.indexOf(name)) ?? ''), name).toBe(value !== true);
    }
  });

  it.each(SERVICES)(
    'for %s are accepted, up to an address that this machine does not have',
    async (_name, args) => {
      const free = [await freePort(), await freePort(), await freePort()];
      const here = args.map((arg: string) =>
        arg
          .replace('--port=8765', `--port=${free[0]}`)
          .replace('--metrics-port=9464', `--metrics-port=${free[1]}`)
          .replace('--peer-port=7946', `--peer-port=${free[2]}`)
          .replace('$(POD_IP)', '10.0.0.7')
          .replace('$(REDIS_URL)', 'redis:')
          .replace(/--cluster=(\w+):.*/, '--cluster=$1://127.0.0.1:1')
          .replace('--data=/data', `--data=${data}`)
          .replace('--host=0.0.0.0', '--host=no.such.host.invalid'),
      );
      const env = { PARLANCE_TOKEN: 'token', PARLANCE_CLUSTER_SECRET: 'a secret of 20 bytes' };
      // All options are checked before the first port is opened.
      const { code, stderr } = await run(here, { env });
      expect(stderr).toContain('no.such.host.invalid');
      expect(code).toBe(1);
    },
  );

  it('name ports that the containers, the probes and the policies have', () => {
    const flags = flagsOf(container.args);
    const ports = new Map(container.ports.map(({ name, containerPort }) => [name, String(containerPort)]));
    expect(ports).toEqual(
      new Map([
        ['sessions', flags.get('--port')],
        ['peers', flags.get('--peer-port')],
        ['metrics', flags.get('--metrics-port')],
      ]),
    );
    expect(String(flags.get('--advertise'))).toMatch(new RegExp(`:${ports.get('peers')}$`));
    expect(kind('Service').spec.ports).toEqual([
      { name: 'sessions', port: Number(ports.get('sessions')), targetPort: 'sessions' },
    ]);
    const named = kind('NetworkPolicy').spec.ingress.flatMap(
      ({ ports: allowed }: { ports: { port: string }[] }) => allowed.map(({ port }) => port),
    );
    expect(named.sort()).toEqual([...ports.keys()].sort());
  });

  it('name the paths and ports at which a node answers', () => {
    const { readinessProbe, livenessProbe, startupProbe } = container;
    expect(readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'metrics' });
    for (const probe of [livenessProbe, startupProbe])
      expect(probe.httpGet).toEqual({ path: '/healthz', port: 'metrics' });
    const flags = flagsOf(container.args);
    const [port, metrics] = [flags.get('--port'), flags.get('--metrics-port')];
    expect(configurationOf('nginx')).toContain(`server node1:${port} `);
    expect(configurationOf('haproxy')).toContain(`server node1 node1:${port}\n`);
    expect(configurationOf('haproxy')).toContain(`check port ${metrics} `);
    expect(configurationOf('haproxy')).toContain('uri /readyz\n');
    expect(compose.services.node1.healthcheck.test[3]).toContain(`http://127.0.0.1:${metrics}/readyz`);
  });
});

describe('the environment', () => {
  it('has the names that the command line reads, all from the Secret', () => {
    const { stringData = {} } = kind('Secret');
    const used = container.env.map(({ name }) => name);
    expect(used.sort()).toEqual(['POD_IP', ...Object.keys(stringData)].sort());
    for (const name of ['PARLANCE_TOKEN', 'PARLANCE_CLUSTER_SECRET']) {
      expect(help).toContain(name);
      expect(used).toContain(name);
      for (const { command, environment } of servers) {
        const isNeeded = name === 'PARLANCE_TOKEN' || flagsOf(command).has('--cluster');
        expect(Object.keys(environment).includes(name)).toBe(isNeeded);
      }
    }
    for (const [name] of container.args.join(' ').matchAll(/(?<=\$\()\w+/g)) expect(used).toContain(name);
    expect(Buffer.byteLength(stringData['PARLANCE_CLUSTER_SECRET'] ?? '')).toBeGreaterThanOrEqual(16);
  });
});

describe('a drain', () => {
  const drainSeconds = Number(flagsOf(container.args).get('--drain-timeout')) / 1_000;
  /** For clients that are told at the end, and for the process. */
  const CLOSING_SECONDS = 5;

  it('has the time that it may take before a node is killed', () => {
    const [command, seconds] = container.lifecycle.preStop.exec.command;
    expect(command).toBe('sleep');
    expect(pod.spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      Number(seconds) + drainSeconds + CLOSING_SECONDS,
    );
    for (const { command: args, stop_grace_period: grace } of servers) {
      const timeout = Number(flagsOf(args).get('--drain-timeout')) / 1_000;
      expect(Number(/^(\d+)s$/.exec(grace)?.[1])).toBeGreaterThanOrEqual(timeout + CLOSING_SECONDS);
    }
  });

  it('begins when another node is ready, one node at a time', () => {
    expect(kind('Deployment').spec.strategy.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 });
    expect(kind('PodDisruptionBudget').spec.maxUnavailable).toBe(1);
    expect(kind('Deployment').spec.replicas).toBeGreaterThan(1);
  });
});

describe('the manifests', () => {
  it('select the pods of the deployment', () => {
    const { labels } = pod.metadata;
    expect(kind('Deployment').spec.selector.matchLabels).toEqual(labels);
    expect(kind('Service').spec.selector).toEqual(labels);
    expect(kind('PodDisruptionBudget').spec.selector.matchLabels).toEqual(labels);
    expect(kind('NetworkPolicy').spec.podSelector.matchLabels).toEqual(labels);
    const peers = kind('NetworkPolicy').spec.ingress.find(
      ({ from }: { from?: unknown }) => from !== undefined,
    );
    expect(peers).toEqual({ from: [{ podSelector: { matchLabels: labels } }], ports: [{ port: 'peers' }] });
  });

  it('route the path of sessions, and what is below it, to the service without a limit of time', () => {
    const [route, ...others] = manifestsOf('kubernetes/route.yaml');
    expect(others).toEqual([]);
    expect([route?.apiVersion, route?.kind]).toEqual(['gateway.networking.k8s.io/v1', 'HTTPRoute']);
    const service = kind('Service');
    const [{ port }] = service.spec.ports;
    expect(route?.spec).toEqual({
      parentRefs: [{ name: 'gateway' }],
      hostnames: ['sessions.example'],
      rules: [
        {
          matches: [{ path: { type: 'PathPrefix', value: '/session' } }],
          backendRefs: [{ name: service.metadata.name, port }],
          timeouts: { request: '0s' },
        },
      ],
    });
  });

  it('give Redis the policy that nodes demand', () => {
    const { command } = compose.services.redis;
    expect(command[command.indexOf('--maxmemory-policy') + 1]).toBe('noeviction');
  });

  it('differ by their engine and by nothing else, with Postgres and with Redis', () => {
    const { postgres, ...others } = composePostgres.services;
    const { redis, ...same } = compose.services;
    const asRedis = JSON.stringify(others)
      .replaceAll('--cluster=postgres://parlance@postgres/parlance', '--cluster=redis://redis:6379')
      .replaceAll('"depends_on":{"postgres"', '"depends_on":{"redis"')
      // biome-ignore lint/suspicious/noTemplateCurlyInString: Compose fills it in.
      .replaceAll(',"PGPASSWORD":"${POSTGRES_PASSWORD:?nodes present it}"', '');
    expect(JSON.parse(asRedis)).toEqual(same);
    expect(redis.volumes).toBeUndefined();
    // Its user and its database are those of the URL, and what it has outlives the container.
    const { POSTGRES_USER, POSTGRES_DB, POSTGRES_PASSWORD } = postgres.environment;
    const url = new URL(String(flagsOf(others.node1.command).get('--cluster')));
    expect([url.username, url.hostname, url.pathname]).toEqual([
      POSTGRES_USER,
      'postgres',
      `/${POSTGRES_DB}`,
    ]);
    expect(url.password).toBe('');
    expect(others.node1.environment.PGPASSWORD).toBe(POSTGRES_PASSWORD);
    const [volume] = postgres.volumes[0].split(':');
    expect(Object.keys(composePostgres.volumes)).toEqual([volume]);
  });

  it('have what the engines need: clients in the image, and a folder that its user may write', () => {
    const image = read('Dockerfile');
    const { peerDependencies } = JSON.parse(
      readFileSync(new URL('../../../packages/server/package.json', import.meta.url), 'utf8'),
    );
    for (const client of ['ioredis', 'pg']) {
      expect(Object.keys(peerDependencies)).toContain(client);
      expect(image).toMatch(new RegExp(`npm install .* ${client}\\b`));
    }
    // Node has SQLite from 22.13 on.
    expect(Number(/^FROM node:(\d+)/m.exec(image)?.[1])).toBeGreaterThanOrEqual(22);
    const { command, volumes, ports } = composeSqlite.services.server;
    const folder = flagsOf(command).get('--data');
    expect(volumes).toEqual([`data:${folder}`]);
    expect(Object.keys(composeSqlite.volumes)).toEqual(['data']);
    expect(image).toContain(`mkdir ${folder} && chown node:node ${folder}`);
    expect(image.indexOf('chown')).toBeLessThan(image.indexOf('USER node'));
    expect(ports[0].split(':').at(-1)).toBe(flagsOf(command).get('--port'));
  });

  it('list the proxy of Compose among those whose headers are trusted', () => {
    for (const { networks, services } of [compose, composePostgres]) {
      const [{ subnet }] = networks.inside.ipam.config;
      for (const { command } of [services.node1, services.node2])
        expect(flagsOf(command).get('--trusted-proxies')).toBe(subnet);
    }
  });
});
