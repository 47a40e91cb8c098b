import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../kit/cli-process.js';

/** nginx and HAProxy with the configurations of `deploy/`, in front of servers of a test. */

export type ProxyName = 'nginx' | 'haproxy';

export interface ProxyServer extends AsyncDisposable {
  readonly port: number;
  /** With TLS. */
  readonly tlsPort: number;
  /** The certificate, in PEM. */
  readonly certificate: string;
  /** Has it read its configuration again, as after a change. Connections that are open stay with the processes of before. */
  reload(): void;
}

export interface Backend {
  readonly port: number;
  /** Where it answers `/readyz`. */
  readonly metricsPort: number;
}

export interface ProxyOptions {
  /** Seconds of silence after which connections are cut; the configurations say 90. */
  readonly timeoutSeconds?: number;
}

const PROGRAMS = { nginx: '/usr/sbin/nginx', haproxy: '/usr/sbin/haproxy' } as const;
const FILES = { nginx: 'nginx.conf', haproxy: 'haproxy.cfg' } as const;
const START_MS = 10_000;

/** The configuration as it is shipped. */
export function configurationOf(name: ProxyName): string {
  return readFileSync(fileURLToPath(new URL(`../../../deploy/${FILES[name]}`, import.meta.url)), 'utf8');
}

/** Why tests with a proxy are skipped; `undefined` if it is there. In CI it has to be. */
export function proxyMissing(name: ProxyName): string | undefined {
  const isSkipped = !existsSync(PROGRAMS[name]) && process.env['CI'] !== 'true';
  return isSkipped ? `skipped without ${name}: apt-get install ${name}` : undefined;
}

/** @param backends two, as in the configurations. */
export async function startProxy(
  name: ProxyName,
  backends: readonly [Backend, Backend],
  { timeoutSeconds = 90 }: ProxyOptions = {},
): Promise<ProxyServer> {
  const folder = await mkdtemp(join(tmpdir(), `parlance-${name}-`));
  const [port, tlsPort] = [await freePort(), await freePort()];
  const certificate = createCertificate(folder);
  const adapted = [
    // The names and ports of the configurations, with those of this test in their places.
    [/\bnode([12]):8765/g, (_: string, n: string) => `127.0.0.1:${backendAt(backends, n).port}`],
    [
      /^( +server node([12]) \S+)$/gm,
      (_: string, line: string, n: string) => `${line} port ${backendAt(backends, n).metricsPort}`,
    ],
    [/\b8080\b/g, () => port],
    [/\b8443\b/g, () => tlsPort],
    [/# TLS: /g, () => ''],
    [/\/etc\/parlance\//g, () => `${folder}/`],
    [/\/tmp\/parlance-nginx\.pid/g, () => join(folder, 'nginx.pid')],
    // Tests may not open as many files.
    [/maxconn 20000/, () => 'maxconn 1000'],
    [/\b90s\b/g, () => `${timeoutSeconds}s`],
  ] as const;
  let text = configurationOf(name);
  for (const [pattern, replacement] of adapted) text = text.replace(pattern, replacement as () => string);
  const running = await runProxy(name, folder, text, Number(port));
  return { port: Number(port), tlsPort: Number(tlsPort), certificate, ...running };
}

/**
 * A proxy with a configuration of the test.
 *
 * @param configurationFor returns its text.
 */
export async function startProxyWith(
  name: ProxyName,
  configurationFor: (port: number, folder: string) => string,
): Promise<AsyncDisposable & { readonly port: number }> {
  const folder = await mkdtemp(join(tmpdir(), `parlance-${name}-`));
  // If it is started by root, the processes of nginx are of another user, and write the bodies of requests below it.
  await chmod(folder, 0o711);
  const port = Number(await freePort());
  return { port, ...(await runProxy(name, folder, configurationFor(port, folder), port)) };
}

/** What nginx and HAProxy need to forward to servers at `ports`, and nothing else: all settings are those that they have by themselves. */
export const PLAIN: Readonly<
  Record<ProxyName, (ports: readonly number[]) => (port: number, folder: string) => string>
> = {
  nginx: (ports) => (port, folder) =>
    nginxWith(
      folder,
      // A server takes no name of others: nginx sends that of the upstream as the host.
      `upstream localhost { ${ports.map((each) => `server 127.0.0.1:${each};`).join(' ')} }
      server { listen 127.0.0.1:${port}; location / { proxy_pass http://localhost; } }`,
    ),
  haproxy: (ports) => (port) =>
    `
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend all
  bind 127.0.0.1:${port}
  default_backend servers
backend servers
  balance roundrobin
${ports.map((each) => `  server server${each} 127.0.0.1:${each}`).join('\n')}
`,
};

/** A configuration of nginx with `http`, and with its files in `folder`. */
export function nginxWith(folder: string, http: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  return `
    worker_processes 1; pid ${folder}/nginx.pid; error_log stderr error;
    events { worker_connections 200; }
    http {
      access_log off;
      ${temporary.map((each) => `${each}_temp_path ${folder}/${each};`).join(' ')}
      ${http}
    }`;
}

/** Resolves when the port is open. The folder goes with the process. */
async function runProxy(
  name: ProxyName,
  folder: string,
  text: string,
  port: number,
): Promise<AsyncDisposable & Pick<ProxyServer, 'reload'>> {
  const file = join(folder, FILES[name]);
  await writeFile(file, text);
  const args = name === 'nginx' ? ['-c', file, '-p', folder, '-g', 'daemon off;'] : ['-W', '-f', file];
  const child = spawn(PROGRAMS[name], args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const end = performance.now() + START_MS;
  while (!(await isOpen(port))) {
    if (child.exitCode !== null || performance.now() > end)
      throw new Error(`${name} did not start: ${errors}`);
    await pause(20);
  }
  return {
    reload: () => void child.kill(name === 'nginx' ? 'SIGHUP' : 'SIGUSR2'),
    async [Symbol.asyncDispose]() {
      const ended = once(child, 'exit');
      if (child.exitCode === null) {
        child.kill('SIGTERM');
        await ended;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function backendAt(backends: readonly [Backend, Backend], number: string): Backend {
  return backends[number === '1' ? 0 : 1];
}

/** Of localhost, for nginx as two files and for HAProxy as one. @returns the certificate. */
export function createCertificate(folder: string): string {
  const [key, crt] = [join(folder, 'tls.key'), join(folder, 'tls.crt')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  execFileSync('openssl', ['req', '-x509', ...made, '-keyout', key, '-out', crt, ...subject], {
    stdio: 'pipe',
  });
  const pem = readFileSync(crt, 'utf8');
  execFileSync('sh', ['-c', `cat '${crt}' '${key}' > '${join(folder, 'tls.pem')}'`]);
  return pem;
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
