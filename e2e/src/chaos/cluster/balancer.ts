import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../../kit/cli-process.js';
import { createCertificate } from '../../proxies/proxy-server.js';

/** Connections of one process of HAProxy, each of which has two descriptors. */
const MAX_CONNECTIONS = 9_000;
/** Nodes at a time, those that drain included. */
const MAX_NODES = 8;
const START_MS = 10_000;

/** HAProxy with TLS in front of nodes that come and go, as many processes as descriptors need. Connections go to any node. */
export class Balancer implements AsyncDisposable {
  /** In PEM. */
  readonly certificate: string;
  readonly urls: readonly string[];
  readonly #folder: string;
  readonly #processes: readonly ReturnType<typeof spawn>[];
  #ports: readonly (number | undefined)[] = Array.from({ length: MAX_NODES }, () => undefined);

  private constructor(
    folder: string,
    certificate: string,
    ports: readonly number[],
    processes: readonly ReturnType<typeof spawn>[],
  ) {
    this.#folder = folder;
    this.certificate = certificate;
    this.urls = ports.map((port) => `wss://127.0.0.1:${port}/session`);
    this.#processes = processes;
  }

  /** @param connections how many there may be. */
  static async start(connections: number): Promise<Balancer> {
    const folder = await mkdtemp(join(tmpdir(), 'parlance-balancer-'));
    const certificate = createCertificate(folder);
    const ports: number[] = [];
    const processes: ReturnType<typeof spawn>[] = [];
    for (let i = 0; i * MAX_CONNECTIONS < connections; i++) {
      const port = Number(await freePort());
      const file = join(folder, `${i}.cfg`);
      await writeFile(file, configuration(folder, i, port));
      processes.push(spawn('/usr/sbin/haproxy', ['-f', file], { stdio: 'ignore' }));
      ports.push(port);
    }
    const balancer = new Balancer(folder, certificate, ports, processes);
    await balancer.#command('show info');
    return balancer;
  }

  /** Connections that are there stay where they are. @param ports of the nodes that get new ones. */
  async route(ports: readonly number[]): Promise<void> {
    const commands: string[] = [];
    const next = this.#ports.map((port, at) => {
      if (port === undefined || ports.includes(port)) return port;
      commands.push(`set server nodes/n${at + 1} state maint`);
      return undefined;
    });
    for (const port of ports) {
      if (next.includes(port)) continue;
      const at = next.indexOf(undefined);
      if (at < 0) throw new Error(`a balancer has at most ${MAX_NODES} nodes`);
      next[at] = port;
      const server = `set server nodes/n${at + 1}`;
      commands.push(`${server} addr 127.0.0.1 port ${port}`, `${server} state ready`);
    }
    this.#ports = next;
    for (const command of commands) await this.#command(command);
  }

  /** Tells it to each process, when that is there. */
  async #command(command: string): Promise<void> {
    const end = performance.now() + START_MS;
    for (const [index, child] of this.#processes.entries()) {
      for (let isDone = false; !isDone; ) {
        try {
          const socket = connect(join(this.#folder, `${index}.sock`));
          await once(socket, 'connect');
          socket.end(`${command}\n`);
          await text(socket);
          isDone = true;
        } catch (error) {
          if (performance.now() > end || child.exitCode !== null) throw error;
          await pause(20);
        }
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#processes) {
      if (child.exitCode !== null) continue;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}

const configuration = (folder: string, index: number, port: number) => `global
  maxconn ${MAX_CONNECTIONS}
  nbthread 1
  stats socket ${folder}/${index}.sock level admin
defaults
  mode tcp
  timeout connect 5s
  timeout client 90s
  timeout server 90s
frontend front
  bind 127.0.0.1:${port} ssl crt ${folder}/tls.pem
  default_backend nodes
backend nodes
  balance random
  server-template n 1-${MAX_NODES} 127.0.0.1:1 disabled
`;
