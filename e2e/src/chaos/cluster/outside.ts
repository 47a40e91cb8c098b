import { setTimeout as sleep } from 'node:timers/promises';
import { offer } from '../../../../scripts/child-process.js';
import { createHostileProxy, type HostileProxy, type ProxiedConnection } from '../hostile-proxy.js';
import { runStorm, type StormCounts } from '../storm.js';
import { startUpstream } from './upstream.js';

/** All that is around the nodes, in a process of its own: the balancer, a proxy for each other leg, and the upstream. */

/** A failure of the connections of one proxy. */
export type Blow =
  /** All are reset. */
  | { readonly kind: 'cut' }
  /** The present ones are dead, without a word; new ones work. */
  | { readonly kind: 'silence' }
  /** Nothing passes for a while, on present or new ones, and then everything. */
  | { readonly kind: 'freeze'; readonly ms: number }
  /** Each way takes some time, for a while. */
  | { readonly kind: 'slow'; readonly ms: number; readonly delayMs: number };

let ports: readonly number[] = [];
const upstream = await startUpstream();
// A balancer that knows nothing of the nodes: each connection goes to any of them.
const createFront = () => createHostileProxy(() => ports[Math.floor(Math.random() * ports.length)] ?? 0);
const front = await createFront();
const proxies = new Map<string, HostileProxy>([['front', front]]);
/** Proxies that a storm treats as one. */
const groups = new Map<string, HostileProxy[]>([['front', [front]]]);
const counts: StormCounts = { cuts: 0, freezes: 0, delays: 0, halves: 0, outages: 0 };
let storms: Promise<void>[] = [];
let over = new AbortController();
/** Average time between two failures of one group, while there are any. */
let stormMs: number | undefined;

function storm(group: readonly HostileProxy[], everyMs: number): Promise<void> {
  const proxy = {
    get connections() {
      return group.flatMap(({ connections }) => connections);
    },
    get refuses() {
      return group.some(({ refuses }) => refuses);
    },
    set refuses(refuses) {
      for (const each of group) each.refuses = refuses;
    },
  };
  return runStorm({ proxy, counts, everyMs, mayHalve: () => false }, over.signal);
}

/** Befalls all connections, and for `ms` those that are opened meanwhile. */
async function befall(
  proxy: HostileProxy,
  ms: number,
  begin: (connection: ProxiedConnection) => void,
  end: (connection: ProxiedConnection) => void,
): Promise<void> {
  proxy.onOpened = begin;
  proxy.connections.forEach(begin);
  await sleep(ms);
  proxy.onOpened = () => {};
  proxy.connections.forEach(end);
}

const commands = {
  front: () => front.port,
  upstream: () => upstream.port,
  served: () => upstream.served(),
  connections: () => front.opened,
  route(next: readonly number[]): void {
    ports = next;
  },
  /** @returns the port of another balancer, for one client. */
  async door(name: string): Promise<number> {
    const proxy = await createFront();
    proxies.set(name, proxy);
    return proxy.port;
  },
  /** @returns the port of a proxy in front of another one. */
  async guard({
    name,
    group,
    port,
  }: {
    readonly name: string;
    readonly group: string;
    readonly port: number;
  }) {
    const proxy = await createHostileProxy(port);
    proxies.set(name, proxy);
    const others = groups.get(group);
    if (others !== undefined) others.push(proxy);
    else {
      groups.set(group, [proxy]);
      if (stormMs !== undefined) storms.push(storm([proxy], stormMs));
    }
    return proxy.port;
  },
  /** Resolves when it is over. */
  async strike({ names, blow }: { readonly names: readonly string[]; readonly blow: Blow }): Promise<void> {
    const struck = names.flatMap((name) => proxies.get(name) ?? []);
    await Promise.all(struck.map((proxy) => strikeOne(proxy, blow)));
  },
  /** Breaks connections of every leg. @param everyMs average time between two failures of one leg. */
  storm(everyMs: number): void {
    over = new AbortController();
    stormMs = everyMs;
    storms = [...groups.values()].map((group) => storm(group, everyMs));
  },
  async calm(): Promise<StormCounts> {
    over.abort();
    stormMs = undefined;
    await Promise.all(storms);
    return counts;
  },
};
export type OutsideCommands = typeof commands;

async function strikeOne(proxy: HostileProxy, blow: Blow): Promise<void> {
  switch (blow.kind) {
    case 'cut':
      for (const connection of proxy.connections) connection.reset();
      return;
    case 'silence':
      for (const connection of proxy.connections) {
        connection.halve('up');
        connection.halve('down');
      }
      return;
    case 'freeze': {
      const end = performance.now() + blow.ms;
      const freeze = (each: ProxiedConnection) => each.freeze(end - performance.now());
      return await befall(proxy, blow.ms, freeze, () => {});
    }
    case 'slow':
      return await befall(
        proxy,
        blow.ms,
        (each) => each.delay(blow.delayMs),
        (each) => each.delay(0),
      );
  }
}

offer(commands);
