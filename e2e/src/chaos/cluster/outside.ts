import { offer } from '../../../../scripts/child-process.js';
import { createHostileProxy, type HostileProxy } from '../hostile-proxy.js';
import { runStorm, type StormCounts } from '../storm.js';
import { startUpstream } from './upstream.js';

/** All that is around the nodes, in a process of its own: the balancer, a proxy for each other leg, and the upstream. */

let ports: readonly number[] = [];
const upstream = await startUpstream();
// A balancer that knows nothing of the nodes: each connection goes to any of them.
const front = await createHostileProxy(() => ports[Math.floor(Math.random() * ports.length)] ?? 0);
const guards = new Map<number, HostileProxy>();
const counts: StormCounts = { cuts: 0, freezes: 0, delays: 0, halves: 0, outages: 0 };
let storms: Promise<void>[] = [];
let over = new AbortController();
/** Average time between two failures of one proxy, while there are any. */
let stormMs: number | undefined;

const storm = (proxy: HostileProxy, everyMs: number) =>
  runStorm({ proxy, counts, everyMs, mayHalve: () => false }, over.signal);

const commands = {
  front: () => front.port,
  upstream: () => upstream.port,
  served: () => upstream.served(),
  connections: () => front.opened,
  route(next: readonly number[]): void {
    ports = next;
  },
  /** @returns the port of a proxy in front of another one. */
  async guard(port: number): Promise<number> {
    const proxy = await createHostileProxy(port);
    guards.set(port, proxy);
    if (stormMs !== undefined) storms.push(storm(proxy, stormMs));
    return proxy.port;
  },
  /** Breaks connections of every leg. @param everyMs average time between two failures of one proxy. */
  storm(everyMs: number): void {
    over = new AbortController();
    stormMs = everyMs;
    storms = [front, ...guards.values()].map((proxy) => storm(proxy, everyMs));
  },
  async calm(): Promise<StormCounts> {
    over.abort();
    stormMs = undefined;
    await Promise.all(storms);
    return counts;
  },
};
export type OutsideCommands = typeof commands;

offer(commands);
