import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startChild } from '../../../scripts/child-process.js';
import type { CrowdOptions } from '../load/crowd.js';
import type { LoadCommands } from '../process/load.js';
import type { ServerCommands } from '../process/server.js';
import type { SystemName } from '../systems/system.js';

/** One system under load: its server and its clients, each in a process of its own. */
export interface Contestant {
  readonly name: SystemName;
  readonly port: number;
  readonly server: Child<ServerCommands>;
  readonly load: Child<LoadCommands>;
}

/** The performance of a server in one window of time. */
export interface Window {
  /** Messages per second that came back to the clients. */
  readonly rate: number;
  /** Microseconds of the server's CPU per message. */
  readonly cpu: number;
  /** Share of one core that each process used; if the load used a whole one, it may have limited the rate. */
  readonly serverBusy: number;
  readonly loadBusy: number;
}

export async function startContestant(name: SystemName): Promise<Contestant> {
  const server = startChild<ServerCommands>(
    new URL('../process/server.ts', import.meta.url),
    [name],
    ['--expose-gc'],
  );
  const load = startChild<LoadCommands>(new URL('../process/load.ts', import.meta.url), [name]);
  return { name, server, load, port: await server.call('port') };
}

export function stopContestant({ server, load }: Contestant): void {
  load.stop();
  server.stop();
}

export async function openConnections(
  { load, port }: Contestant,
  options: Omit<CrowdOptions, 'port'>,
): Promise<number> {
  return await load.call('open', { port, ...options });
}

/** Closes all connections and waits until the server has noticed. */
export async function closeConnections({ name, load, server }: Contestant): Promise<void> {
  await load.call('close');
  for (let patience = 200; patience > 0; patience--) {
    if ((await server.call('connections')) === 0) return;
    await sleep(10);
  }
  throw new Error(`${name} still has ${await server.call('connections')} connections`);
}

/** Runs the load until this many messages have come back. */
export async function warmUp({ load }: Contestant, messages: number): Promise<void> {
  const { echoes } = await load.call('mark');
  await load.call('start');
  while ((await load.call('mark')).echoes < echoes + messages) await sleep(20);
  await load.call('stop');
}

/** Runs the load and measures the part of it in which it runs at full speed. */
export async function measureWindow(
  { load, server }: Contestant,
  { rampMs, windowMs }: { readonly rampMs: number; readonly windowMs: number },
): Promise<Window> {
  const marks = async () => await Promise.all([server.call('mark'), load.call('mark')]);
  await load.call('start');
  await sleep(rampMs);
  const [server0, load0] = await marks();
  await sleep(windowMs);
  const [server1, load1] = await marks();
  await load.call('stop');
  const elapsedMs = load1.atMs - load0.atMs;
  const serverCpuUs = server1.cpuUs - server0.cpuUs;
  return {
    rate: ((load1.echoes - load0.echoes) / elapsedMs) * 1000,
    cpu: serverCpuUs / (server1.echoes - server0.echoes),
    serverBusy: serverCpuUs / 1000 / elapsedMs,
    loadBusy: (load1.cpuUs - load0.cpuUs) / 1000 / elapsedMs,
  };
}
