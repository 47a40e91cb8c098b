import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Child, startChild } from '../../../scripts/child-process.js';
import type { Attack, Fair, Latency, Outcome } from './attack.js';
import { MIB } from './bombs.js';
import { BOUNDS, isDeferred } from './bounds.js';
import { echoFairly } from './fair.js';
import type { NeighbourCommands } from './neighbour.js';
import { Scene, type Upstream } from './scene.js';
import type { ServerCommands, ServerName } from './server.js';

/** Runs attacks one after the other, each against an idle server. */

/** A server that takes this much more is killed before the machine suffers. */
const STOP_AT = 1_024 * MIB;
const SAMPLE_MS = 20;
/** Unit of `/proc/[pid]/stat`. */
const TICK_MS = 10;
const PAGE = 4_096;
/** A server with more than this left after an attack is replaced by a new one. */
const CLEAN = 12 * MIB;
/** The report shows how a child ended; its output is hidden. */
const CHILD = { isQuiet: true, timeoutMs: 10_000 };
/** Echoes of a well-behaved client before its cost is measured, and while it is; and how long a neighbour listens to it. */
const FAIR = { warmUp: 16, measured: 40, neighbourMs: 5_000 } as const;
/** Duration of an attack in the short form. */
const SHORT_MS = 200;

interface Quiet {
  readonly latency: Latency;
  readonly cpuMs: number;
}

export class Arena {
  readonly #isShort: boolean;
  readonly #upstream: Upstream;
  readonly #isPlanted: boolean;
  #server: Child<ServerCommands> | undefined;
  #neighbour: Child<NeighbourCommands> | undefined;
  #ports: Record<ServerName, number> | undefined;
  #neighbourAt: ServerName | undefined;
  /** By server and duration. */
  #quiet = new Map<string, Quiet>();
  #fair: Fair | undefined;
  #serial = 0;

  /** @param isPlanted limits of the server are switched off, which an attack has to find. */
  constructor(isShort: boolean, upstream: Upstream, isPlanted = false) {
    this.#isShort = isShort;
    this.#upstream = upstream;
    this.#isPlanted = isPlanted;
  }

  /** The costs of a well-behaved client, measured once; `undefined` in the short form. */
  async fair(): Promise<Fair | undefined> {
    if (this.#isShort || this.#fair !== undefined) return this.#fair;
    const { server, neighbour, ports } = await this.#prepare('main', FAIR.neighbourMs);
    const url = `ws://127.0.0.1:${ports.main}/session`;
    await echoFairly(url, (echoes) => echoes === FAIR.warmUp);
    // Without the neighbour, whose processor time would count.
    const before = cpuOf(server.pid);
    await echoFairly(url, (echoes) => echoes === FAIR.measured);
    const msPerMib = (cpuOf(server.pid) - before) / FAIR.measured;
    let isOver = false;
    const echoing = echoFairly(url, () => isOver);
    const listened = await this.#listen(server, neighbour, FAIR.neighbourMs);
    isOver = true;
    await echoing;
    this.#fair = { msPerMib, neighbour: listened.latency };
    return this.#fair;
  }

  async run(attack: Attack): Promise<Outcome> {
    const fair = await this.fair();
    const windowMs = this.#isShort ? SHORT_MS : (attack.seconds ?? 10) * 1_000;
    const serverName = attack.server ?? 'main';
    const { server, neighbour, ports } = await this.#prepare(serverName, windowMs);
    const scene = new Scene({
      server,
      neighbour,
      serverName,
      port: ports[serverName],
      serial: this.#serial++,
      isShort: this.#isShort,
      upstream: this.#upstream,
    });
    this.#upstream.behaviour = 'think';
    await attack.prepare?.();
    let quiet = this.#quiet.get(`${serverName} ${windowMs}`) as Quiet;
    const logBefore = await server.call('counts');
    const idleRss = rssOf(server.pid);
    const held = await server.call('held');

    let peak = 0;
    let stopped = false;
    const sampler = setInterval(() => {
      const above = rssOf(server.pid) - idleRss;
      peak = Math.max(peak, above);
      if (above < STOP_AT || stopped) return;
      stopped = true;
      void server.kill();
    }, SAMPLE_MS);
    const cpuBefore = cpuOf(server.pid);
    const start = performance.now();
    scene.begin(windowMs);
    const asking = neighbour
      .callWithin(windowMs + 30_000, 'ask', { forMs: windowMs })
      .catch(() => ({ taken: [windowMs], unanswered: 1 }));
    const found = await attacked(attack, scene);
    await scene.wait();
    const cpuMs = cpuOf(server.pid) - cpuBefore;
    const elapsed = performance.now() - start;
    const heldBytes = await server
      .callWithin(5_000, 'held')
      .then((now) => now - held)
      .catch(() => peak);
    clearInterval(sampler);
    // Cancel the neighbour's requests to a server that is gone.
    if (server.end !== undefined) void neighbour.call('close').catch(() => {});
    const answers = await asking;

    const death = stopped ? undefined : server.end;
    const logAfter = await server.callWithin(5_000, 'counts').catch(() => logBefore);
    const { sentBytes, floors } = scene;
    const answer = [...scene.answers].sort((a, b) => b[1] - a[1])[0];
    scene.cut();
    const isGone = server.end !== undefined;
    const aliveMs = isGone
      ? undefined
      : await neighbour
          .callWithin(BOUNDS.aliveMs + 1_000, 'alive', { withinMs: BOUNDS.aliveMs })
          .catch(() => undefined);
    if (attack.goesOn === true && !isGone) await server.callWithin(5_000, 'end', serverName).catch(() => {});
    const { recoveredMs, leftBytes } = isGone
      ? { recoveredMs: 0, leftBytes: 0 }
      : await this.#recover(server, held);
    const others = latencyOf(answers);
    // Other work on the machine varies from minute to minute: measure a quiet run right after this one.
    if (isDeferred(others, quiet.latency, fair) && aliveMs !== undefined && recoveredMs !== undefined) {
      const again = await this.#listen(server, neighbour, windowMs);
      if (again.latency.p99 > quiet.latency.p99) quiet = again;
    }
    if (leftBytes > CLEAN || aliveMs === undefined) await this.#drop();
    return {
      attack,
      windowMs: elapsed,
      sentBytes,
      floors,
      peakBytes: peak,
      heldBytes: Math.max(0, heldBytes),
      cpuMs,
      neighbour: others,
      quiet: quiet.latency,
      quietCpuMs: quiet.cpuMs,
      fair,
      logLines: logAfter.logLines - logBefore.logLines,
      logBytes: logAfter.logBytes - logBefore.logBytes,
      wasStopped: stopped,
      death,
      aliveMs,
      recoveredMs,
      leftBytes,
      answer: answer && `${answer[1] > 1 ? `${answer[1]} times ` : ''}with ${answer[0]}`,
      found,
    };
  }

  /** The next attack gets a server of its own. */
  async renew(): Promise<void> {
    await this.#drop();
  }

  async stop(): Promise<void> {
    await this.#drop();
    await this.#neighbour?.kill();
    this.#upstream.stop();
  }

  async #drop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#neighbourAt = undefined;
    this.#quiet.clear();
    await server?.kill();
  }

  /** Provides an idle server, and a neighbour with sessions there. */
  async #prepare(name: ServerName, windowMs: number) {
    if (this.#server === undefined || this.#server.end !== undefined) {
      await this.#drop();
      this.#server = startChild<ServerCommands>(
        new URL('./server.ts', import.meta.url),
        this.#isPlanted ? [this.#upstream.url, 'plant'] : [this.#upstream.url],
        ['--expose-gc'],
        CHILD,
      );
      this.#ports = await this.#server.callWithin(60_000, 'ports');
    }
    this.#neighbour ??= startChild<NeighbourCommands>(
      new URL('./neighbour.ts', import.meta.url),
      [],
      [],
      CHILD,
    );
    const [server, neighbour, ports] = [
      this.#server,
      this.#neighbour,
      this.#ports as Record<ServerName, number>,
    ];
    if (this.#neighbourAt !== name) {
      const url = `ws://127.0.0.1:${ports[name]}/session`;
      await neighbour.callWithin(30_000, 'connect', { url, isProtected: name === 'security' });
      this.#neighbourAt = name;
    }
    const key = `${name} ${windowMs}`;
    if (!this.#quiet.has(key)) {
      this.#quiet.set(key, await this.#listen(server, neighbour, windowMs));
    }
    return { server, neighbour, ports };
  }

  /** The neighbour's latency and CPU cost without an attack. */
  async #listen(
    server: Child<ServerCommands>,
    neighbour: Child<NeighbourCommands>,
    forMs: number,
  ): Promise<Quiet> {
    const before = cpuOf(server.pid);
    const latency = latencyOf(await neighbour.callWithin(forMs + 30_000, 'ask', { forMs }));
    return { latency, cpuMs: cpuOf(server.pid) - before };
  }

  /** Waits until the server's memory is back, or the time is up. */
  async #recover(
    server: Child<ServerCommands>,
    held: number,
  ): Promise<{ recoveredMs: number | undefined; leftBytes: number }> {
    const start = performance.now();
    let leftBytes = 0;
    do {
      leftBytes = await server
        .callWithin(5_000, 'held')
        .then((now) => Math.max(0, now - held))
        .catch(() => Infinity);
      if (server.end !== undefined) return { recoveredMs: undefined, leftBytes: 0 };
      const recoveredMs = performance.now() - start;
      if (leftBytes <= BOUNDS.leftBytes) return { recoveredMs, leftBytes };
      await delay(500);
    } while (performance.now() - start < (this.#isShort ? 2_000 : BOUNDS.recoveryMs));
    return { recoveredMs: this.#isShort ? 0 : undefined, leftBytes };
  }
}

/** @returns what the attack found. An attack that throws is a finding, unless the server is gone. */
async function attacked(attack: Attack, scene: Scene): Promise<readonly string[]> {
  try {
    return (await attack.run(scene)) ?? [];
  } catch (error) {
    return scene.server.end === undefined ? [`the attack failed: ${(error as Error).message}`] : [];
  }
}

/** Memory of a process in bytes; 0 if it has ended. */
function rssOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * PAGE;
  } catch {
    return 0;
  }
}

/** CPU time of all threads of a process, in milliseconds; 0 if it has ended. */
function cpuOf(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  } catch {
    return 0;
  }
}

function latencyOf({ taken, unanswered }: { taken: readonly number[]; unanswered: number }): Latency {
  const sorted = [...taken].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? 0, unanswered };
}

/** An API that only the attacker uses. */
export async function startUpstream(): Promise<Upstream> {
  const upstream = { url: '', received: 0, last: '', behaviour: 'think' as Upstream['behaviour'], stop() {} };
  const server = createServer((request, response) => {
    let begun = '';
    request.on('data', (chunk: Buffer) => {
      upstream.received += chunk.length;
      if (begun.length < 1_000) begun += chunk.toString().slice(0, 1_000);
    });
    request.on('end', () => {
      upstream.last = begun;
      if (upstream.behaviour === 'think') return;
      response.setHeader('content-type', 'application/json');
      response.end(ANSWER);
    });
    request.on('error', () => {});
    response.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  upstream.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  upstream.stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return upstream;
}

/** An answer that echoes the request's metadata after its usage, as those of some APIs do. */
const ANSWER = JSON.stringify({
  id: 'x',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1_000, completion_tokens: 5_000, total_tokens: 6_000 },
  metadata: { usage: 'x' },
});
